"""A checkpoint's tokenizer files.

* tokenizer.model: a SentencePiece model; without a vocabulary, its own ids are used.
* vocabulary.json: the pieces in the order of their ids, if SentencePiece's ids differ.
* tokenizer_rules.json: preparation and segmentation that SentencePiece does not cover.
* target.model, target_vocabulary.json, target_rules.json: the same for a separate target side.
"""

TOKENIZER_FILE = "tokenizer.model"
TARGET_FILE = "target.model"
TABLE_FILE, TARGET_TABLE_FILE = "vocabulary.json", "target_vocabulary.json"
RULES_FILE, TARGET_RULES_FILE = "tokenizer_rules.json", "target_rules.json"
#: Model, table and rules of each side.
SOURCE_FILES = (TOKENIZER_FILE, TABLE_FILE, RULES_FILE)
TARGET_FILES = (TARGET_FILE, TARGET_TABLE_FILE, TARGET_RULES_FILE)
#: All possible tokenizer files.
TOKENIZER_FILES = SOURCE_FILES + TARGET_FILES

#: The `unit` of rules that leave segmentation to SentencePiece.
BY_MODEL = "sentencepiece"
