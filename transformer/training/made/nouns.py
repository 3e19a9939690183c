"""Tables of nouns and adjectives in English, German and French.

A line of nouns is `English: German, its genitive[, its accusative and dative]; French`; articles
show the genders.
"""

from __future__ import annotations

from transformer.training.made.grammar import Adjective, Gender, Noun

_TABLE = {
    "animal": """
dog: der Hund, Hundes; un chien
cat: die Katze; un chat
horse: das Pferd, Pferdes; un cheval
cow: die Kuh; une vache
bird: der Vogel, Vogels; un oiseau
mouse: die Maus; une souris
rabbit: das Kaninchen, Kaninchens; un lapin
lion: der Löwe, Löwen, Löwen; un lion
tiger: der Tiger, Tigers; un tigre
bear: der Bär, Bären, Bären; un ours
wolf: der Wolf, Wolfes; un loup
fox: der Fuchs, Fuchses; un renard
elephant: der Elefant, Elefanten, Elefanten; un éléphant
monkey: der Affe, Affen, Affen; un singe
pig: das Schwein, Schweins; un cochon
goat: die Ziege; une chèvre
duck: die Ente; un canard
chicken: das Huhn, Huhns; une poule
frog: der Frosch, Frosches; une grenouille
snake: die Schlange; un serpent
turtle: die Schildkröte; une tortue
bee: die Biene; une abeille
butterfly: der Schmetterling, Schmetterlings; un papillon
spider: die Spinne; une araignée
owl: die Eule; un hibou
donkey: der Esel, Esels; un âne
squirrel: das Eichhörnchen, Eichhörnchens; un écureuil
hedgehog: der Igel, Igels; un hérisson
giraffe: die Giraffe; une girafe
zebra: das Zebra, Zebras; un zèbre
kangaroo: das Känguru, Kängurus; un kangourou
whale: der Wal, Wals; une baleine
dolphin: der Delfin, Delfins; un dauphin
shark: der Hai, Hais; un requin
penguin: der Pinguin, Pinguins; un pingouin
parrot: der Papagei, Papageis; un perroquet
eagle: der Adler, Adlers; un aigle
ant: die Ameise; une fourmi
hamster: der Hamster, Hamsters; un hamster
camel: das Kamel, Kamels; un chameau
""",
    "person": """
teacher: der Lehrer, Lehrers; un professeur
doctor: der Arzt, Arztes; un médecin
student: der Student, Studenten, Studenten; un étudiant
neighbor: der Nachbar, Nachbarn, Nachbarn; un voisin
friend: der Freund, Freundes; un ami
girl: das Mädchen, Mädchens; une fille
boy: der Junge, Jungen, Jungen; un garçon
man: der Mann, Mannes; un homme
woman: die Frau; une femme
child: das Kind, Kindes; un enfant
baby: das Baby, Babys; un bébé
brother: der Bruder, Bruders; un frère
sister: die Schwester; une sœur
uncle: der Onkel, Onkels; un oncle
aunt: die Tante; une tante
cousin: der Cousin, Cousins; un cousin
grandmother: die Großmutter; une grand-mère
grandfather: der Großvater, Großvaters; un grand-père
mother: die Mutter; une mère
father: der Vater, Vaters; un père
daughter: die Tochter; une fille
son: der Sohn, Sohnes; un fils
nurse: die Krankenschwester; une infirmière
waiter: der Kellner, Kellners; un serveur
cook: der Koch, Kochs; un cuisinier
driver: der Fahrer, Fahrers; un chauffeur
farmer: der Bauer, Bauern, Bauern; un agriculteur
policeman: der Polizist, Polizisten, Polizisten; un policier
soldier: der Soldat, Soldaten, Soldaten; un soldat
king: der König, Königs; un roi
queen: die Königin; une reine
prince: der Prinz, Prinzen, Prinzen; un prince
princess: die Prinzessin; une princesse
singer: die Sängerin; une chanteuse
actor: der Schauspieler, Schauspielers; un acteur
actress: die Schauspielerin; une actrice
lawyer: der Anwalt, Anwalts; un avocat
engineer: der Ingenieur, Ingenieurs; un ingénieur
pilot: der Pilot, Piloten, Piloten; un pilote
painter: der Maler, Malers; un peintre
writer: der Schriftsteller, Schriftstellers; un écrivain
journalist: der Journalist, Journalisten, Journalisten; un journaliste
baker: der Bäcker, Bäckers; un boulanger
dentist: der Zahnarzt, Zahnarztes; un dentiste
tourist: der Tourist, Touristen, Touristen; un touriste
""",
    "family": """
mother: die Mutter; une mère
father: der Vater, Vaters; un père
sister: die Schwester; une sœur
brother: der Bruder, Bruders; un frère
grandmother: die Großmutter; une grand-mère
grandfather: der Großvater, Großvaters; un grand-père
aunt: die Tante; une tante
uncle: der Onkel, Onkels; un oncle
cousin: der Cousin, Cousins; un cousin
daughter: die Tochter; une fille
son: der Sohn, Sohnes; un fils
niece: die Nichte; une nièce
nephew: der Neffe, Neffen, Neffen; un neveu
boss: der Chef, Chefs; un patron
teacher: der Lehrer, Lehrers; un professeur
neighbor: der Nachbar, Nachbarn, Nachbarn; un voisin
""",
    "tech": """
robot: der Roboter, Roboters; un robot
program: das Programm, Programms; un programme
computer: der Computer, Computers; un ordinateur
network: das Netz, Netzes; un réseau
model: das Modell, Modells; un modèle
language model: das Sprachmodell, Sprachmodells; un modèle de langue
algorithm: der Algorithmus, Algorithmus; un algorithme
chatbot: der Chatbot, Chatbots; un chatbot
machine: die Maschine; une machine
app: die App; une application
website: die Website; un site web
translation program: das Übersetzungsprogramm, Übersetzungsprogramms; un programme de traduction
search engine: die Suchmaschine; un moteur de recherche
laptop: der Laptop, Laptops; un ordinateur portable
""",
    "thing": """
key: der Schlüssel, Schlüssels; une clé
cup: die Tasse; une tasse
glass: das Glas, Glases; un verre
bottle: die Flasche; une bouteille
plate: der Teller, Tellers; une assiette
knife: das Messer, Messers; un couteau
fork: die Gabel; une fourchette
spoon: der Löffel, Löffels; une cuillère
phone: das Telefon, Telefons; un téléphone
computer: der Computer, Computers; un ordinateur
watch: die Armbanduhr; une montre
clock: die Uhr; une horloge
lamp: die Lampe; une lampe
umbrella: der Regenschirm, Regenschirms; un parapluie
bag: die Tasche; un sac
wallet: die Geldbörse; un portefeuille
suitcase: der Koffer, Koffers; une valise
box: die Schachtel; une boîte
basket: der Korb, Korbes; un panier
candle: die Kerze; une bougie
mirror: der Spiegel, Spiegels; un miroir
camera: die Kamera; un appareil photo
ball: der Ball, Balls; un ballon
guitar: die Gitarre; une guitare
violin: die Geige; un violon
letter: der Brief, Briefes; une lettre
newspaper: die Zeitung; un journal
postcard: die Postkarte; une carte postale
ticket: die Fahrkarte; un billet
map: die Landkarte; une carte
gift: das Geschenk, Geschenks; un cadeau
toy: das Spielzeug, Spielzeugs; un jouet
doll: die Puppe; une poupée
hammer: der Hammer, Hammers; un marteau
ladder: die Leiter; une échelle
bucket: der Eimer, Eimers; un seau
towel: das Handtuch, Handtuchs; une serviette
toothbrush: die Zahnbürste; une brosse à dents
pillow: das Kissen, Kissens; un oreiller
blanket: die Decke; une couverture
vase: die Vase; un vase
radio: das Radio, Radios; une radio
picture: das Bild, Bildes; une image
coin: die Münze; une pièce
rope: das Seil, Seils; une corde
""",
    "food": """
apple: der Apfel, Apfels; une pomme
banana: die Banane; une banane
orange: die Orange; une orange
pear: die Birne; une poire
lemon: die Zitrone; un citron
strawberry: die Erdbeere; une fraise
cherry: die Kirsche; une cerise
peach: der Pfirsich, Pfirsichs; une pêche
tomato: die Tomate; une tomate
potato: die Kartoffel; une pomme de terre
carrot: die Karotte; une carotte
onion: die Zwiebel; un oignon
cucumber: die Gurke; un concombre
cake: der Kuchen, Kuchens; un gâteau
pie: die Torte; une tarte
cookie: der Keks, Kekses; un biscuit
egg: das Ei, Eis; un œuf
sausage: die Wurst; une saucisse
sandwich: das Sandwich, Sandwichs; un sandwich
pizza: die Pizza; une pizza
salad: der Salat, Salats; une salade
soup: die Suppe; une soupe
pancake: der Pfannkuchen, Pfannkuchens; une crêpe
ice cream: das Eis, Eises; une glace
steak: das Steak, Steaks; un steak
hamburger: der Hamburger, Hamburgers; un hamburger
omelet: das Omelett, Omeletts; une omelette
melon: die Melone; un melon
pineapple: die Ananas; un ananas
croissant: das Croissant, Croissants; un croissant
""",
    "furniture": """
table: der Tisch, Tisches; une table
chair: der Stuhl, Stuhls; une chaise
bed: das Bett, Bettes; un lit
sofa: das Sofa, Sofas; un canapé
desk: der Schreibtisch, Schreibtischs; un bureau
wardrobe: der Kleiderschrank, Kleiderschranks; une armoire
shelf: das Regal, Regals; une étagère
armchair: der Sessel, Sessels; un fauteuil
carpet: der Teppich, Teppichs; un tapis
bench: die Bank; un banc
drawer: die Schublade; un tiroir
fridge: der Kühlschrank, Kühlschranks; un frigo
washing machine: die Waschmaschine; une machine à laver
bathtub: die Badewanne; une baignoire
mattress: die Matratze; un matelas
bookcase: der Bücherschrank, Bücherschranks; une bibliothèque
stool: der Hocker, Hockers; un tabouret
oven: der Ofen, Ofens; un four
""",
    "vehicle": """
car: das Auto, Autos; une voiture
bus: der Bus, Busses; un bus
train: der Zug, Zuges; un train
bicycle: das Fahrrad, Fahrrads; un vélo
plane: das Flugzeug, Flugzeugs; un avion
boat: das Boot, Bootes; un bateau
ship: das Schiff, Schiffes; un navire
truck: der Lastwagen, Lastwagens; un camion
motorcycle: das Motorrad, Motorrads; une moto
taxi: das Taxi, Taxis; un taxi
tram: die Straßenbahn; un tramway
helicopter: der Hubschrauber, Hubschraubers; un hélicoptère
tractor: der Traktor, Traktors; un tracteur
ambulance: der Krankenwagen, Krankenwagens; une ambulance
ferry: die Fähre; un ferry
scooter: der Roller, Rollers; un scooter
rocket: die Rakete; une fusée
sled: der Schlitten, Schlittens; une luge
""",
    "building": """
house: das Haus, Hauses; une maison
school: die Schule; une école
church: die Kirche; une église
hospital: das Krankenhaus, Krankenhauses; un hôpital
hotel: das Hotel, Hotels; un hôtel
museum: das Museum, Museums; un musée
library: die Bibliothek; une bibliothèque
castle: das Schloss, Schlosses; un château
bank: die Bank; une banque
restaurant: das Restaurant, Restaurants; un restaurant
station: der Bahnhof, Bahnhofs; une gare
airport: der Flughafen, Flughafens; un aéroport
factory: die Fabrik; une usine
tower: der Turm, Turms; une tour
bridge: die Brücke; un pont
theater: das Theater, Theaters; un théâtre
cinema: das Kino, Kinos; un cinéma
university: die Universität; une université
supermarket: der Supermarkt, Supermarkts; un supermarché
bakery: die Bäckerei; une boulangerie
pharmacy: die Apotheke; une pharmacie
post office: das Postamt, Postamts; une poste
town hall: das Rathaus, Rathauses; une mairie
swimming pool: das Schwimmbad, Schwimmbads; une piscine
stadium: das Stadion, Stadions; un stade
farm: der Bauernhof, Bauernhofs; une ferme
garage: die Garage; un garage
palace: der Palast, Palasts; un palais
prison: das Gefängnis, Gefängnisses; une prison
kindergarten: der Kindergarten, Kindergartens; une école maternelle
""",
    "clothes": """
shirt: das Hemd, Hemdes; une chemise
dress: das Kleid, Kleides; une robe
skirt: der Rock, Rocks; une jupe
coat: der Mantel, Mantels; un manteau
jacket: die Jacke; une veste
hat: der Hut, Hutes; un chapeau
cap: die Mütze; une casquette
scarf: der Schal, Schals; une écharpe
tie: die Krawatte; une cravate
belt: der Gürtel, Gürtels; une ceinture
sweater: der Pullover, Pullovers; un pull
T-shirt: das T-Shirt, T-Shirts; un t-shirt
suit: der Anzug, Anzugs; un costume
glove: der Handschuh, Handschuhs; un gant
shoe: der Schuh, Schuhs; une chaussure
boot: der Stiefel, Stiefels; une botte
sock: die Socke; une chaussette
blouse: die Bluse; un chemisier
swimsuit: der Badeanzug, Badeanzugs; un maillot de bain
uniform: die Uniform; un uniforme
ring: der Ring, Rings; une bague
raincoat: der Regenmantel, Regenmantels; un imperméable
""",
    "school": """
book: das Buch, Buches; un livre
pen: der Stift, Stifts; un stylo
pencil: der Bleistift, Bleistifts; un crayon
notebook: das Heft, Heftes; un cahier
ruler: das Lineal, Lineals; une règle
eraser: der Radiergummi, Radiergummis; une gomme
schoolbag: die Schultasche; un cartable
blackboard: die Tafel; un tableau
dictionary: das Wörterbuch, Wörterbuchs; un dictionnaire
exam: die Prüfung; un examen
exercise: die Übung; un exercice
lesson: die Lektion; une leçon
test: der Test, Tests; un test
calculator: der Taschenrechner, Taschenrechners; une calculatrice
text: der Text, Textes; un texte
sentence: der Satz, Satzes; une phrase
word: das Wort, Wortes; un mot
question: die Frage; une question
answer: die Antwort; une réponse
story: die Geschichte; une histoire
poem: das Gedicht, Gedichts; un poème
computer: der Computer, Computers; un ordinateur
page: die Seite; une page
pencil case: das Federmäppchen, Federmäppchens; une trousse
""",
    "nature": """
tree: der Baum, Baumes; un arbre
flower: die Blume; une fleur
river: der Fluss, Flusses; une rivière
mountain: der Berg, Berges; une montagne
lake: der See, Sees; un lac
forest: der Wald, Waldes; une forêt
sea: das Meer, Meeres; une mer
island: die Insel; une île
beach: der Strand, Strandes; une plage
stone: der Stein, Steins; une pierre
star: der Stern, Sterns; une étoile
cloud: die Wolke; un nuage
field: das Feld, Feldes; un champ
meadow: die Wiese; un pré
hill: der Hügel, Hügels; une colline
valley: das Tal, Tals; une vallée
leaf: das Blatt, Blattes; une feuille
rose: die Rose; une rose
garden: der Garten, Gartens; un jardin
park: der Park, Parks; un parc
desert: die Wüste; un désert
volcano: der Vulkan, Vulkans; un volcan
cave: die Höhle; une grotte
waterfall: der Wasserfall, Wasserfalls; une cascade
storm: der Sturm, Sturms; une tempête
planet: der Planet, Planeten, Planeten; une planète
""",
}

#: Kinds of nouns, the names of slots.
KINDS = frozenset(_TABLE)

#: English: German, French masculine, French feminine, and the kinds that can be so.
# "Noun" is any noun.
_LIVING = "animal person family"
_OBJECTS = "thing furniture vehicle building clothes school"
_ADJECTIVES = f"""
tired: müde, fatigué, fatiguée; {_LIVING}
young: jung, jeune, jeune; {_LIVING}
old: alt, vieux, vieille; {_LIVING} {_OBJECTS} nature noun
sick: krank, malade, malade; {_LIVING}
small: klein, petit, petite; {_LIVING} {_OBJECTS} food nature noun
big: groß, grand, grande; animal {_OBJECTS} food nature noun
tall: groß, grand, grande; person
strong: stark, fort, forte; {_LIVING}
weak: schwach, faible, faible; {_LIVING}
slow: langsam, lent, lente; animal person vehicle tech
fast: schnell, rapide, rapide; animal person vehicle tech
friendly: freundlich, gentil, gentille; {_LIVING}
dangerous: gefährlich, dangereux, dangereuse; animal vehicle nature noun
nervous: nervös, nerveux, nerveuse; {_LIVING}
intelligent: intelligent, intelligent, intelligente; {_LIVING} tech
curious: neugierig, curieux, curieuse; {_LIVING}
brave: mutig, courageux, courageuse; {_LIVING}
quiet: still, silencieux, silencieuse; {_LIVING} nature
famous: berühmt, célèbre, célèbre; person
happy: glücklich, heureux, heureuse; {_LIVING}
sad: traurig, triste, triste; {_LIVING}
angry: wütend, furieux, furieuse; {_LIVING}
rich: reich, riche, riche; person
poor: arm, pauvre, pauvre; person
polite: höflich, poli, polie; person
patient: geduldig, patient, patiente; person
lazy: faul, paresseux, paresseuse; {_LIVING}
funny: lustig, drôle, drôle; {_LIVING}
shy: schüchtern, timide, timide; {_LIVING}
new: neu, neuf, neuve; {_OBJECTS} noun tech
expensive: teuer, cher, chère; {_OBJECTS} food noun tech
heavy: schwer, lourd, lourde; thing furniture
light: leicht, léger, légère; thing
dirty: schmutzig, sale, sale; animal {_OBJECTS}
clean: sauber, propre, propre; {_OBJECTS}
wet: nass, mouillé, mouillée; animal clothes thing
empty: leer, vide, vide; building vehicle
beautiful: schön, beau, belle; animal {_OBJECTS} nature noun
ugly: hässlich, laid, laide; {_OBJECTS}
warm: warm, chaud, chaude; clothes food
cold: kalt, froid, froide; food
delicious: köstlich, délicieux, délicieuse; food
good: gut, bon, bonne; food
sweet: süß, sucré, sucrée; food
fresh: frisch, frais, fraîche; food
ripe: reif, mûr, mûre; food
long: lang, long, longue; clothes
short: kurz, court, courte; clothes
modern: modern, moderne, moderne; {_OBJECTS} noun tech
white: weiß, blanc, blanche; {_OBJECTS} animal
black: schwarz, noir, noire; {_OBJECTS} animal
red: rot, rouge, rouge; {_OBJECTS}
green: grün, vert, verte; {_OBJECTS}
blue: blau, bleu, bleue; {_OBJECTS}
yellow: gelb, jaune, jaune; {_OBJECTS}
gray: grau, gris, grise; {_OBJECTS} animal
useful: nützlich, utile, utile; thing school vehicle noun tech
broken: kaputt, cassé, cassée; thing furniture
interesting: interessant, intéressant, intéressante; school noun tech
difficult: schwierig, difficile, difficile; school noun
easy: einfach, facile, facile; school
important: wichtig, important, importante; school person noun tech
strange: seltsam, étrange, étrange; animal thing building noun tech
perfect: perfekt, parfait, parfaite; school clothes noun tech
necessary: notwendig, nécessaire, nécessaire; noun
""".replace("  ", " ")


def _nouns(lines: str) -> tuple[Noun, ...]:
    found = []
    for line in lines.strip().splitlines():
        english, _, rest = line.partition(": ")
        german, _, french = rest.partition("; ")
        first, *oblique = german.split(", ")
        article, noun = first.split(" ", 1)
        genders: dict[str, Gender] = {"der": "m", "die": "f", "das": "n"}
        un, fr_noun = french.split(" ", 1)
        found.append(
            Noun(english, noun, genders[article], fr_noun, "f" if un == "une" else "m", *oblique)
        )
    return tuple(found)


def _adjectives(lines: str) -> tuple[Adjective, ...]:
    found = []
    for line in lines.strip().splitlines():
        english, _, rest = line.partition(": ")
        forms, _, kinds = rest.partition("; ")
        german, masculine, feminine = forms.split(", ")
        found.append(Adjective(english, german, masculine, feminine, frozenset(kinds.split())))
    return tuple(found)


#: Nouns by kind, and adjectives.
NOUNS: dict[str, tuple[Noun, ...]] = {kind: _nouns(lines) for kind, lines in _TABLE.items()}
ADJECTIVES = _adjectives(_ADJECTIVES)
