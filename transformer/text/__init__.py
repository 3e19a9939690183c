"""Tokenizers: text to token ids and back (section 5.1). May import `config` and `files`."""
