"""What users call: raw inputs in, texts, pictures or numbers out."""
