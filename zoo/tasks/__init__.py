"""What users call: raw inputs in, texts, images or numbers out."""
