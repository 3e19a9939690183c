"""Names of people and places, and invented ones.

Invented names teach a model to copy a word piece by piece instead of recalling it.
"""

from __future__ import annotations

import random

_FIRST_NAMES = """
Mary Peter John James Robert Michael William David Richard Thomas Charles Daniel Matthew Anthony
Mark Donald Steven Paul Andrew Kevin Brian George Edward Ronald Timothy Jason Jeffrey Ryan Jacob
Gary Nicholas Eric Jonathan Stephen Larry Justin Scott Brandon Benjamin Samuel Gregory Frank
Alexander Raymond Patrick Jack Dennis Jerry Tyler Aaron Adam Henry Nathan Douglas Zachary Kyle
Walter Ethan Jeremy Harold Keith Christian Roger Noah Gerald Carl Terry Sean Austin Arthur
Lawrence Jesse Dylan Bryan Joe Jordan Billy Bruce Albert Willie Gabriel Logan Alan Juan Wayne Roy
Ralph Randy Eugene Vincent Russell Louis Philip Bobby Johnny Bradley Tom Tim Ben Sam Max Leo Luke
Oliver Patricia Jennifer Linda Elizabeth Barbara Susan Jessica Sarah Karen Lisa Nancy Betty
Margaret Sandra Ashley Kimberly Emily Donna Michelle Carol Amanda Dorothy Melissa Deborah
Stephanie Rebecca Sharon Laura Cynthia Kathleen Amy Angela Shirley Anna Brenda Pamela Emma Nicole
Helen Samantha Katherine Christine Debra Rachel Carolyn Janet Catherine Maria Heather Diane Ruth
Julie Olivia Joyce Virginia Victoria Kelly Lauren Christina Joan Evelyn Judith Megan Andrea Cheryl
Hannah Jacqueline Martha Gloria Teresa Ann Sara Madison Frances Kathryn Janice Jean Abigail Alice
Julia Judy Sophia Grace Denise Amber Doris Marilyn Danielle Beverly Isabella Theresa Diana Natalie
Brittany Charlotte Marie Kayla Alexis Lori Kate Lucy Jane Ella Mia Zoe Chloe Lily Ruby Daisy Rose
Ali Aisha Omar Fatima Hassan Leila Ahmed Yasmin Mohammed Layla Ibrahim Amina Khalid Zainab Karim
Nadia Yusuf Samira Tariq Salma Bilal Noor Hamza Mariam Rashid Mehmet Emre Elif Ayşe Deniz Cem Wei
Ming Li Jing Mei Xiu Hui Chen Jun Lan Yuki Hiroshi Sakura Kenji Haruto Akira Naoko Takeshi Yoko
Emi Ken Min Ji-woo Soo-jin Hyun Seo-yeon Linh Minh Thu Anh Nguyen Somchai Siti Dewi Budi José
Carlos Luis Miguel Javier Diego Pablo Fernando Alejandro Sofía Lucía Carmen Elena Isabel Ana Paula
Marta Pedro João Rui Inês Beatriz Thiago Rafael Bruno Camila Valentina Mateo Santiago Ximena Marco
Luca Giulia Francesca Alessandro Matteo Chiara Paolo Giovanni Lorenzo Federica Silvia Hans Klaus
Jürgen Dieter Uwe Lukas Felix Jonas Finn Anke Heike Greta Lena Katrin Sabine Ursula Ingrid Heidi
Lars Sven Björn Astrid Freya Nils Erik Søren Aino Mika Pekka Liisa Olaf Sigrid Pierre Jacques
Michel Luc Antoine Julien Camille Élodie Chantal Sylvie Mathieu Benoît Céline Amélie Aurélie Hugo
Manon Léa Inès Théo Noémie Hélène Yves Yann Zoé Gaston Margaux Ivan Olga Dmitri Natasha Boris
Tatiana Sergei Svetlana Igor Irina Vladimir Katya Anton Oksana Taras Bogdan Mateusz Agnieszka
Piotr Zofia Jan Tereza Jana Milan Marek Zuzana László Zsófia Ágnes István Ion Mihai Goran Vesna
Luka Ivana Nikos Eleni Dimitris Sofia Maja Priya Raj Anil Sunita Rahul Deepa Arjun Kavita Vikram
Anjali Sanjay Lakshmi Ravi Meera Amit Neha Kwame Ama Kofi Abena Chidi Ngozi Amara Tunde Zuri
Jabari Thandiwe Sipho Nomsa Lerato Abebe Selam Moshe Rivka Avi Tamar Noa Yael Eitan Miriam Aroha
Kiri Tane Moana Malia Keanu Dara Siobhán Aoife
"""
_SURNAMES = """
Smith Johnson Williams Brown Jones Miller Davis Wilson Anderson Taylor Thomas Moore Jackson Martin
Lee Thompson White Harris Clark Lewis Robinson Walker Young Allen King Wright Scott Hill Green
Adams Nelson Baker Hall Campbell Mitchell Carter Roberts Turner Phillips Evans Parker Collins
Edwards Stewart Morris Murphy Cook Rogers Cooper Peterson Reed Bailey Bell Kelly Howard Ward Cox
García Martínez López González Pérez Sánchez Ramírez Torres Flores Rivera Silva Santos Ferreira
Müller Schmidt Schneider Fischer Weber Meyer Wagner Becker Hoffmann Schulz Koch Bauer Richter
Klein Wolf Schröder Neumann Braun Zimmermann Krüger Hartmann Lange Krause Lehmann Dubois Durand
Leroy Moreau Simon Laurent Lefebvre Michel Bertrand Roux Fournier Girard Bonnet Rossi Russo
Ferrari Esposito Bianchi Romano Colombo Ricci Kowalski Nowak Novák Horvat Popescu Ivanov Petrov
Smirnov Kuznetsov Nguyen Tran Wang Zhang Liu Yang Huang Zhao Wu Zhou Kim Park Choi Tanaka Suzuki
Sato Watanabe Yamamoto Singh Patel Kumar Sharma Khan Hussain Ahmed Okafor Mensah Diallo Traoré
Hansen Larsen Nielsen Lindqvist Virtanen Papadopoulos Yılmaz Demir Cohen Levy
"""
_CITIES = """
Berlin Paris Madrid Stuttgart Leipzig Bonn Dortmund Potsdam Heidelberg Düsseldorf Kiel Rostock
Erfurt Linz Graz Innsbruck Lyon Marseille Toulouse Bordeaux Lille Nantes Rennes Nancy Metz Dijon
Grenoble Montpellier Rouen Oslo Stockholm Helsinki Dublin Cork Belfast Manchester Liverpool
Birmingham Oxford Cambridge Bristol Leeds Glasgow Amsterdam Rotterdam Utrecht Lausanne Porto
Budapest Bratislava Zagreb Ljubljana Sarajevo Sofia Riga Vilnius Tallinn Chicago Boston Seattle
Dallas Houston Denver Miami Atlanta Detroit Phoenix Toronto Vancouver Ottawa Lima Caracas Santiago
Sydney Melbourne Brisbane Perth Auckland Wellington Osaka Kyoto Nagoya Bangkok Jakarta Shanghai
Delhi Karachi Lahore Ankara Istanbul Izmir Nairobi Lagos Accra Dakar Casablanca Tunis Kinshasa
Pretoria Durban Kigali Kampala Cannes
"""
#: Cities with a name in each language: English, German, French.
_NAMED = """
London London Londres
Munich München Munich
Vienna Wien Vienne
Rome Rom Rome
Cologne Köln Cologne
Geneva Genf Genève
Zurich Zürich Zurich
Brussels Brüssel Bruxelles
Prague Prag Prague
Warsaw Warschau Varsovie
Moscow Moskau Moscou
Lisbon Lissabon Lisbonne
Athens Athen Athènes
Venice Venedig Venise
Florence Florenz Florence
Milan Mailand Milan
Naples Neapel Naples
Turin Turin Turin
Copenhagen Kopenhagen Copenhague
Beijing Peking Pékin
Tokyo Tokio Tokyo
Hamburg Hamburg Hambourg
Frankfurt Frankfurt Francfort
Bremen Bremen Brême
Dresden Dresden Dresde
Hanover Hannover Hanovre
Nuremberg Nürnberg Nuremberg
Salzburg Salzburg Salzbourg
Strasbourg Straßburg Strasbourg
Basel Basel Bâle
Bern Bern Berne
Barcelona Barcelona Barcelone
Seville Sevilla Séville
Edinburgh Edinburgh Édimbourg
Antwerp Antwerpen Anvers
Bucharest Bukarest Bucarest
Belgrade Belgrad Belgrade
Krakow Krakau Cracovie
Nice Nizza Nice
Jerusalem Jerusalem Jérusalem
Philadelphia Philadelphia Philadelphie
New_York New_York New_York
Los_Angeles Los_Angeles Los_Angeles
San_Francisco San_Francisco San_Francisco
Rio_de_Janeiro Rio_de_Janeiro Rio_de_Janeiro
Buenos_Aires Buenos_Aires Buenos_Aires
Hong_Kong Hongkong Hong_Kong
"""
FIRST_NAMES = tuple(_FIRST_NAMES.split())
SURNAMES = tuple(_SURNAMES.split())
#: English, German and French.
CITIES: tuple[tuple[str, str, str], ...] = (
    *((name, name, name) for name in _CITIES.split()),
    *(
        (english.replace("_", " "), german.replace("_", " "), french.replace("_", " "))
        for line in _NAMED.strip().splitlines()
        for english, german, french in [line.split()]
    ),
)

_ONSET_LIST = "b c d f g j k l m n p r s t v w z br ch cl dr fl gr kr pl sh st th tr"
_ONSETS = tuple(_ONSET_LIST.split())
_NUCLEI = ("a", "e", "i", "o", "u", "a", "e", "i", "o", "ai", "ea", "ia", "io", "oo")
_CODAS = ("", "", "", "l", "n", "r", "s", "m", "t", "k", "nd", "rt", "x", "ck")
#: Ends of invented names of one syllable.
_ENDS = ("n", "l", "rt", "nk", "sk", "ra", "no")


def first_name(rng: random.Random) -> str:
    """Draw a first name; every fifth is invented."""
    return invented(rng) if rng.random() < 0.2 else rng.choice(FIRST_NAMES)


def surname(rng: random.Random) -> str:
    """Draw a surname; every fifth is invented."""
    return invented(rng) if rng.random() < 0.2 else rng.choice(SURNAMES)


def city(rng: random.Random) -> tuple[str, str, str]:
    """Draw a city in English, German and French; every tenth is invented."""
    if rng.random() < 0.1:
        name = invented(rng)
        return name, name, name
    return rng.choice(CITIES)


def invented(rng: random.Random) -> str:
    """Make up a name of one to three syllables."""
    syllables = rng.choice((1, 2, 2, 2, 3))
    parts = [rng.choice(_ONSETS) + rng.choice(_NUCLEI) for _ in range(syllables)]
    return ("".join(parts) + rng.choice(_CODAS if syllables > 1 else _ENDS)).capitalize()
