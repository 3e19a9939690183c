"""Text in, token ids out, and back (section 5.1). May import the configuration and `files`."""
