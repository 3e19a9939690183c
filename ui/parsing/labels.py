"""What the labels of phrases and the tags of words stand for (Penn Treebank)."""

from __future__ import annotations

PHRASES = {
    "ADJP": "adjective phrase", "ADVP": "adverb phrase", "CONJP": "conjunction phrase",
    "FRAG": "fragment", "INTJ": "interjection", "LST": "list marker", "NAC": "not a constituent",
    "NP": "noun phrase", "NX": "part of a noun phrase", "PP": "prepositional phrase",
    "PRN": "parenthesis", "PRT": "particle", "QP": "quantity", "RRC": "reduced relative clause",
    "S": "clause", "SBAR": "subordinate clause", "SBARQ": "question with a question word",
    "SINV": "inverted clause", "SQ": "question", "UCP": "coordination of unlike phrases",
    "VP": "verb phrase", "WHADJP": "question's adjective phrase",
    "WHADVP": "question's adverb phrase", "WHNP": "question's noun phrase",
    "WHPP": "question's prepositional phrase", "X": "unknown",
}  # fmt: skip

TAGS = {
    "CC": "coordinating conjunction", "CD": "number", "DT": "determiner", "EX": "existential there",
    "FW": "foreign word", "HYPH": "hyphen", "IN": "preposition or subordinating conjunction",
    "JJ": "adjective", "JJR": "comparative adjective", "JJS": "superlative adjective",
    "LS": "list marker", "MD": "modal verb", "NN": "noun", "NNS": "plural noun",
    "NNP": "proper noun", "NNPS": "plural proper noun", "PDT": "predeterminer",
    "POS": "possessive ending", "PRP": "pronoun", "PRP$": "possessive pronoun", "RB": "adverb",
    "RBR": "comparative adverb", "RBS": "superlative adverb", "RP": "particle", "SYM": "symbol",
    "TO": "to", "UH": "interjection", "VB": "verb, base form", "VBD": "verb, past tense",
    "VBG": "verb, -ing form", "VBN": "past participle", "VBP": "verb, present",
    "VBZ": "verb, third person singular", "WDT": "question determiner", "WP": "question pronoun",
    "WP$": "possessive question pronoun", "WRB": "question adverb", "$": "currency",
    ",": "comma", ".": "end of sentence", ":": "colon or dash", "``": "opening quotation mark",
    "''": "closing quotation mark", "-LRB-": "opening bracket", "-RRB-": "closing bracket",
}  # fmt: skip

GLOSSES = TAGS | PHRASES
