"""What of a code base runs as it is, what runs by `estimand run`, and what has to be changed.

Programs are read, never run. What they use is looked up in TensorFlow, in Keras and in the tables
of `estimand.compat` as they are installed here, so that the answer is true for these versions.

    uses.py      the names of TensorFlow that a source file uses, with aliases followed
    names.py     where a name is found today, if anywhere
    idioms.py    ways of writing that a lookup of names cannot judge
    removed.py   what stands in the place of names that are gone
    hints.py     what to write instead
    check.py     one verdict per use, per file, per code base
    rewriting.py what can be rewritten without a doubt
"""
