"""`tf.contrib.framework.python.ops.audio_ops`: sounds, as programs for speech read them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

decode_wav = tf.audio.decode_wav
encode_wav = tf.audio.encode_wav


def audio_spectrogram(
    input: Any,
    window_size: int,
    stride: int,
    magnitude_squared: bool = False,
    name: str | None = None,
) -> tf.Tensor:
    """How strong each frequency is, in windows of `window_size` samples, `stride` apart."""
    return tf.raw_ops.AudioSpectrogram(
        input=input,
        window_size=window_size,
        stride=stride,
        magnitude_squared=magnitude_squared,
        name=name,
    )


def mfcc(
    spectrogram: Any,
    sample_rate: Any,
    upper_frequency_limit: float = 4000,
    lower_frequency_limit: float = 20,
    filterbank_channel_count: int = 40,
    dct_coefficient_count: int = 13,
    name: str | None = None,
) -> tf.Tensor:
    """The cepstrum of a spectrogram."""
    return tf.raw_ops.Mfcc(
        spectrogram=spectrogram,
        sample_rate=sample_rate,
        upper_frequency_limit=upper_frequency_limit,
        lower_frequency_limit=lower_frequency_limit,
        filterbank_channel_count=filterbank_channel_count,
        dct_coefficient_count=dct_coefficient_count,
        name=name,
    )
