"""Sentences around one noun, in which articles, pronouns and adjectives agree with it."""

from __future__ import annotations

from transformer.training.made.nouns import KINDS
from transformer.training.made.phrasebook import parse
from transformer.training.made.values import Triple

_NOMINATIVE = """
Where is {the:noun}?|Wo ist {the:noun}?|Où est {the:noun} ?
{the:noun} is {adj}.|{the:noun} ist {adj}.|{the:noun} est {adj}.
{the:noun} was very {adj}.|{the:noun} war sehr {adj}.|{the:noun} était très {adj}.
{the:noun} isn't {adj}.|{the:noun} ist nicht {adj}.|{the:noun} n'est pas {adj}.
Is {the:noun} {adj}?|Ist {the:noun} {adj}?|Est-ce que {the:noun} est {adj} ?
This is {a:noun}.|Das ist {a:noun}.|C'est {a:noun}.
That isn't {a:noun}.|Das ist {no:noun}.|Ce n'est pas {a:noun}.
What is {a:noun}?|Was ist {a:noun}?|Qu'est-ce que {a:noun} ?
{the:noun} is here.|{the:noun} ist hier.|{the:noun} est ici.
{the:noun} was there.|{the:noun} war da.|{the:noun} était là.
Here is {my:noun}.|Hier ist {my:noun}.|Voici {my:noun}.
Is this {my:noun}?|Ist das {my:noun}?|Est-ce que c'est {my:noun} ?
{my:noun} is {adj}.|{my:noun} ist {adj}.|{my:noun} est {adj}.
This is {a:noun+adj}.|Das ist {a:noun+adj}.|C'est {a:noun+adj}.
{the:noun+adj} is over there.|{the:noun+adj} ist da drüben.|{the:noun+adj} est là-bas.
Where is {the:noun+adj}?|Wo ist {the:noun+adj}?|Où est {the:noun+adj} ?
{this:noun} is {adj}.|{this:noun} ist {adj}.|{this:noun} est {adj}.
{which:noun} is that?|{which:noun} ist das?|{which:noun} est-ce ?
Is that {your:noun}?|Ist das {your:noun}?|Est-ce que c'est {your:noun} ?
{our:noun} is {adj}.|{our:noun} ist {adj}.|{our:noun} est {adj}.
{his:noun} is not here.|{his:noun} ist nicht hier.|{his:noun} n'est pas ici.
Only {the:noun} is missing.|Nur {the:noun} fehlt.|Il ne manque que {the:noun}.
"""
_OTHER = """
I see {a:noun}.|Ich sehe {a:noun.acc}.|Je vois {a:noun}.
I don't see {the:noun}.|Ich sehe {the:noun.acc} nicht.|Je ne vois pas {the:noun}.
Do you see {the:noun}?|Siehst du {the:noun.acc}?|Tu vois {the:noun} ?
I have {a:noun}.|Ich habe {a:noun.acc}.|J'ai {a:noun}.
I don't have {a:noun}.|Ich habe {no:noun.acc}.|Je n'ai pas {no:noun}.
Do you have {a:noun}?|Hast du {a:noun.acc}?|As-tu {a:noun} ?
There is {a:noun} here.|Hier gibt es {a:noun.acc}.|Il y a {a:noun} ici.
I am looking for {the:noun}.|Ich suche {the:noun.acc}.|Je cherche {the:noun}.
We need {a:noun}.|Wir brauchen {a:noun.acc}.|Nous avons besoin de {a:noun}.
She knows {the:noun}.|Sie kennt {the:noun.acc}.|Elle connaît {the:noun}.
He found {a:noun}.|Er hat {a:noun.acc} gefunden.|Il a trouvé {a:noun}.
They have forgotten {the:noun}.|Sie haben {the:noun.acc} vergessen.|Ils ont oublié {the:noun}.
She dreams of {a:noun}.|Sie träumt von {a:noun.dat}.|Elle rêve de {a:noun}.
We are talking about {the:noun}.|Wir reden über {the:noun.acc}.|Nous parlons de {the:noun}.
He came with {the:noun}.|Er kam mit {the:noun.dat}.|Il est venu avec {the:noun}.
She left without {the:noun}.|Sie ging ohne {the:noun.acc}.|Elle est partie sans {the:noun}.
The book is about {a:noun}.|Das Buch handelt von {a:noun.dat}.|Le livre parle de {a:noun}.
I think of {the:noun}.|Ich denke an {the:noun.acc}.|Je pense à {the:noun}.
I see {a:noun+adj}.|Ich sehe {a:noun+adj.acc}.|Je vois {a:noun+adj}.
I want {the:noun+adj}.|Ich will {the:noun+adj.acc}.|Je veux {the:noun+adj}.
I know {this:noun}.|Ich kenne {this:noun.acc}.|Je connais {this:noun}.
{which:noun} do you want?|{which:noun.acc} willst du?|{which:noun} veux-tu ?
She is looking for {her:noun}.|Sie sucht {her:noun.acc}.|Elle cherche {her:noun}.
They love {their:noun}.|Sie lieben {their:noun.acc}.|Ils aiment {their:noun}.
He has {a:noun+adj}.|Er hat {a:noun+adj.acc}.|Il a {a:noun+adj}.
"""
_THINGS = """
I like {the:noun} because {it:noun} is {adj}.|Ich mag {the:noun.acc}, weil {it:noun} {adj} ist.|J'aime {the:noun} parce que {it:noun} est {adj}.
Where is {the:noun}? I don't see {it:noun}.|Wo ist {the:noun}? Ich sehe {it:noun.acc} nicht.|Où est {the:noun} ? Je ne {obj:noun} vois pas.
Take {this:noun}, I don't need {it:noun}.|Nimm {this:noun.acc}, ich brauche {it:noun.acc} nicht.|Prends {this:noun}, je ne {obj:noun} veux pas.
Where is {the:noun}? {it:noun} was here.|Wo ist {the:noun}? {it:noun} war hier.|Où est {the:noun} ? {it:noun} était ici.
I have {a:noun}, but {it:noun} is too {adj}.|Ich habe {a:noun.acc}, aber {it:noun} ist zu {adj}.|J'ai {a:noun}, mais {it:noun} est trop {adj}.
I know {the:noun}. {it:noun} is {adj}.|Ich kenne {the:noun.acc}. {it:noun} ist {adj}.|Je connais {the:noun}. {it:noun} est {adj}.
He didn't buy {the:noun} because {it:noun} was too {adj}.|Er hat {the:noun.acc} nicht gekauft, weil {it:noun} zu {adj} war.|Il n'a pas acheté {the:noun} parce que {it:noun} était trop {adj}.
"""  # noqa: E501


def _parsed(lines: str) -> tuple[Triple, ...]:
    kinds = KINDS | {"noun"}
    return tuple(parse(line.replace("|", "\t"), kinds) for line in lines.strip().split("\n"))


#: Frames in which a noun is the subject, those with other cases, and those for things: with "it".
NOMINATIVE, OTHER, THINGS = map(_parsed, (_NOMINATIVE, _OTHER, _THINGS))
