"""Results of trained models, measured by `bench/ablations.py` (means of three seeds), as the last step of a lesson."""

from satchel.lessons.steps import matrix, step

TRAINING_RESULTS = {
    "positions": step(
        "Trained models: position encodings",
        "Transformers without a causal mask, trained for 500 steps to count the earlier occurrences of each letter "
        "(@counting). Without position encodings they cannot distinguish earlier from later letters. Reproduce with: "
        "satchel train @counting --recipe counting --set model.positions=none.",
        matrix(
            "tagging accuracy, per cent",
            ((63.5, 100.0, 96.8, 99.9),),
            columns=("none", "learned", "sinusoidal", "rotary"),
        ),
    ),
    "scaling": step(
        "Trained models: scaling of the scores",
        "Language models with two layers after 400 steps on half a million characters of Shakespeare: held-out loss "
        "without and with normalisation of queries and keys. Reproduce with: satchel train my.txt --set "
        "model.scale=none.",
        matrix(
            "nats per character",
            ((1.838, 1.944), (1.783, 2.016)),
            ("not normalised", "normalised"),
            ("scaled", "unscaled"),
        ),
    ),
    "block": step(
        "Trained models: residual connections",
        "Language models of width 64 after 250 steps on half a million characters of Shakespeare: held-out loss with "
        "and without residual connections. A unigram model of letters has a loss of 3.29: without residual "
        "connections, eight layers learn only the letter frequencies. Reproduce with: satchel train my.txt --set "
        "model.residual=false --set model.layers=8.",
        matrix(
            "nats per character",
            ((2.039, 1.945, 1.915), (2.123, 3.291, 3.292)),
            ("with residual", "without residual"),
            ("2 layers", "8 layers", "16 layers"),
        ),
    ),
    "rnn": step(
        "Trained models: recall over long distances",
        "Models of width 128 after 1,500 steps on documents that begin and end with the same name (@recall): accuracy "
        "of the last name by the number of words in between. A recurrent cell could keep the name in its hidden state, "
        "but neither RNN nor LSTM learns it in this time; attention has direct access to any distance. Reproduce with: "
        "satchel train @recall --recipe recall --set model.layers=1.",
        matrix(
            "recall accuracy, per cent",
            ((2, 3, 100), (6, 4, 100), (2, 3, 100), (2, 4, 100), (6, 5, 100)),
            ("6-10", "11-20", "21-50", "51-100", "101-200"),
            ("rnn", "lstm", "transformer"),
        ),
    ),
}
