"""A frozen encoder with few samples a label, against setfit and the linear model.

    python bench/few_samples.py run DATA ENCODER OUT --name NAME [--setfit PYTHON] [--header …]
    python bench/few_samples.py table OUT

For 8, 16, 32 and 64 samples a label and each seed, the training samples are drawn so that every label
has at least that many where the data has them; 1,000 others are tested on. All arms see the same texts
and nothing else: `zlpr train` divides them 8:1:1 by itself, of which the test tenth is trained on too
(it is given as the training part), setfit (one-vs-rest head, its defaults but one epoch of at most
`--setfit-steps` steps) takes all of them. Judged by scikit-learn. Every cell leaves one record; a run
that is started again goes on where it stopped.
"""
