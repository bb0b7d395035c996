"""Measuring a translator the way papers do, each number with its protocol."""

from zoo.metrics.bleu import moses_lowercase_bleu, sacrebleu_score


def evaluate_translator(model, pairs, target_language, sampler=None, batch_size=64):
    """Returns every metric of a translator on a data set of pairs.

    Args:
        model: A `Translator`.
        pairs: Data set of (source, target) strings.
        target_language: Language code for the Moses tokenizer, such as `"de"`.
        sampler: Sampler of the translations; by default the model's own.
        batch_size: Texts translated at a time.

    Returns:
        Dictionary of `token_accuracy` and `perplexity` (teacher forcing, per token of the model's
        vocabulary, end token included) and the two `BleuScore` `bleu_moses_lowercase` and
        `bleu_sacrebleu`.
    """
    measured = type(model)(model.core, model.tokenizer)  # leaves what the model was compiled with
    measured.compile()
    scores = measured.evaluate(pairs, batch_size=batch_size, return_dict=True, verbose=0)
    sources, references = _texts(pairs)
    hypotheses = model.translate(sources, sampler=sampler, batch_size=batch_size)
    return {
        "token_accuracy": scores["token_accuracy"],
        "perplexity": scores["perplexity"],
        "bleu_moses_lowercase": moses_lowercase_bleu(hypotheses, references, target_language),
        "bleu_sacrebleu": sacrebleu_score(hypotheses, references),
    }


def best_sampler(model, pairs, samplers, batch_size=64):
    """Returns the sampler whose translations have the best sacreBLEU on a data set of pairs.

    Args:
        model, pairs, batch_size: As for `evaluate_translator`.
        samplers: The samplers to try; of equals, the first wins.
    """
    sources, references = _texts(pairs)

    def score(sampler):
        hypotheses = model.translate(sources, sampler=sampler, batch_size=batch_size)
        return sacrebleu_score(hypotheses, references).score

    return max(samplers, key=score)


def for_card(scores, split, sampler):
    """Returns what the card of a model says of the results of `evaluate_translator`."""

    def entry(metric, value, protocol):
        return {"metric": metric, "split": split, "value": round(value, 2), "protocol": protocol}

    forced = "teacher forcing, per token of the model's vocabulary, end token included"
    entries = [entry("perplexity", scores["perplexity"], forced)]
    names = {
        "bleu_moses_lowercase": "BLEU (lower-cased, Moses tokens)",
        "bleu_sacrebleu": "sacreBLEU (cased, detokenized)",
    }
    for key, metric in names.items():
        entries.append(entry(metric, scores[key].score, f"{sampler}; {scores[key]}"))
    return entries


def _texts(pairs):
    texts = [(source.decode(), target.decode()) for source, target in pairs.as_numpy_iterator()]
    return tuple(map(list, zip(*texts, strict=True)))
