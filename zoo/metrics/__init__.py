"""Scores as published in papers, computed by the reference libraries, and perplexity."""

from zoo.metrics.answers import AnswerScores, answer_scores
from zoo.metrics.bleu import BleuScore, moses_lowercase_bleu, sacrebleu_score
from zoo.metrics.caption_rewards import CaptionReward, CiderReward
from zoo.metrics.captions import CaptionScores, caption_scores
from zoo.metrics.contrastive import ContrastiveLoss
from zoo.metrics.perplexity import Perplexity
from zoo.metrics.retrieval import RetrievalScores, retrieval_scores
from zoo.metrics.sigmoid import SigmoidLoss
from zoo.metrics.token_accuracy import TokenAccuracy
from zoo.metrics.token_errors import TokenErrorRate
from zoo.metrics.word_errors import word_error_rate

__all__ = [
    "AnswerScores",
    "BleuScore",
    "CaptionReward",
    "CaptionScores",
    "CiderReward",
    "ContrastiveLoss",
    "Perplexity",
    "RetrievalScores",
    "SigmoidLoss",
    "TokenAccuracy",
    "TokenErrorRate",
    "answer_scores",
    "caption_scores",
    "moses_lowercase_bleu",
    "retrieval_scores",
    "sacrebleu_score",
    "word_error_rate",
]
