"""How promises sound, one file a language; `every` lists them. Each is measured on a corpus in the tests."""
