"""Steps per second of a recurrent network with gated units over sequences of 40 tokens."""

from __future__ import annotations

from workloads.recurrent import recurrent

WORKLOAD = recurrent("GRU")
