"""Words aloud: who can speak (`voices.py`), what is sent to them (`requests.py`), and the sound that comes of it, made
once and kept (`maker.py`)."""
