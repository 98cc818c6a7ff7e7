"""Keys and trust: who signs, what is served, and who should believe it."""
