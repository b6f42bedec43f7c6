"""`tf.contrib.learn.preprocessing`: texts as rows of numbers."""

from __future__ import annotations

import pickle
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

_WORDS = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z][a-z]+(?=[A-Z])|[\'\w\-]+", re.UNICODE)


def tokenizer(iterator: Iterable[str]) -> Iterator[list[str]]:
    """The words of each text.

    >>> list(tokenizer(["I don't know, HTMLParser!"]))
    [['I', "don't", 'know', 'HTML', 'Parser']]
    """
    for value in iterator:
        yield _WORDS.findall(value)


class CategoricalVocabulary:
    """Numbers of words, in the order of their appearance; 0 is that of all unknown ones."""

    def __init__(self, unknown_token: str = "<UNK>", support_reverse: bool = True) -> None:
        self._unknown, self._reverse = unknown_token, [unknown_token]
        self._mapping = {unknown_token: 0}
        self._count: Counter[str] = Counter()
        self._frozen, self._supports_reverse = False, support_reverse

    def __len__(self) -> int:
        return len(self._mapping)

    def freeze(self, freeze: bool = True) -> None:
        """Whether new words stay unknown."""
        self._frozen = freeze

    def get(self, category: str) -> int:
        """The number of a word, which is a new one unless they are frozen."""
        if category not in self._mapping:
            if self._frozen:
                return 0
            self._mapping[category] = len(self._mapping)
            self._reverse.append(category)
        return self._mapping[category]

    def add(self, category: str, count: int = 1) -> None:
        """Counts a word."""
        number = self.get(category)
        if number > 0:
            self._count[category] += count

    def trim(self, min_frequency: int, max_frequency: int = -1) -> None:
        """Keeps words that are more frequent than this, the most frequent first."""
        ordered = sorted(sorted(self._count.items()), key=lambda item: item[1], reverse=True)
        kept = [
            (word, count)
            for word, count in ordered
            if count > min_frequency and (max_frequency < 0 or count < max_frequency)
        ]
        self._reverse = [self._unknown, *(word for word, _ in kept)]
        self._mapping = {word: number for number, word in enumerate(self._reverse)}
        self._count = Counter(dict(kept))

    def reverse(self, class_id: int) -> str:
        """The word of a number."""
        return self._reverse[class_id]


class VocabularyProcessor:
    """Texts as rows of the numbers of their words, all of one length.

    >>> processor = VocabularyProcessor(4)
    >>> [row.tolist() for row in processor.fit_transform(["a b", "b c d e f"])]
    [[1, 2, 0, 0], [2, 3, 4, 5]]
    """

    def __init__(
        self,
        max_document_length: int,
        min_frequency: int = 0,
        vocabulary: CategoricalVocabulary | None = None,
        tokenizer_fn: Callable[[Iterable[str]], Iterable[Any]] | None = None,
    ) -> None:
        self.max_document_length, self.min_frequency = max_document_length, min_frequency
        self.vocabulary_ = vocabulary or CategoricalVocabulary()
        self._tokenizer = tokenizer_fn or tokenizer

    def fit(self, raw_documents: Iterable[str], unused_y: Any = None) -> VocabularyProcessor:
        """Learns the words of these texts."""
        for words in self._tokenizer(raw_documents):
            for word in words:
                self.vocabulary_.add(word)
        if self.min_frequency > 0:
            self.vocabulary_.trim(self.min_frequency)
        self.vocabulary_.freeze()
        return self

    def fit_transform(self, raw_documents: Any, unused_y: Any = None) -> Iterator[Any]:
        """Both."""
        self.fit(raw_documents)
        return self.transform(raw_documents)

    def transform(self, raw_documents: Iterable[str]) -> Iterator[Any]:
        """The rows of texts."""
        for words in self._tokenizer(raw_documents):
            row: Any = np.zeros(self.max_document_length, np.int64)
            for place, word in enumerate(list(words)[: self.max_document_length]):
                row[place] = self.vocabulary_.get(word)
            yield row

    def reverse(self, documents: Iterable[Any]) -> Iterator[str]:
        """The texts of rows."""
        for row in documents:
            yield " ".join(self.vocabulary_.reverse(number) for number in row)

    def save(self, filename: str) -> None:
        """Writes all of this to a file."""
        with tf.io.gfile.GFile(filename, "wb") as file:
            file.write(pickle.dumps(self))

    @classmethod
    def restore(cls, filename: str) -> VocabularyProcessor:
        """Reads it back; like every pickle, only from files that you trust."""
        with tf.io.gfile.GFile(filename, "rb") as file:
            return pickle.loads(file.read())
