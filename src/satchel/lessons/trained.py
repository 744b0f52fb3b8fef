"""What became of it in training: the figures that `bench/ablations.py` measured, and the command that shows it.

A lesson works with numbers that are written down; these models had to find theirs. Means of three seeds.
"""

from satchel.lessons.steps import Matrix, Step

TRAINED = {
    "positions": Step(
        "Trained: who needs to know where it is",
        "Transformers that see a whole string, trained for 500 steps to say how often each letter stood before "
        "(@counting). Without positions, before and after are the same to them. See it: satchel train @counting "
        "--recipe counting --set model.positions=none.",
        (
            Matrix(
                "right tags, per cent",
                ((63.5, 100.0, 96.8, 99.9),),
                columns=("none", "learned", "sinusoidal", "rotary"),
            ),
        ),
    ),
    "scaling": Step(
        "Trained: what dividing is worth",
        "Language models of two layers after 400 steps on half a million characters of Shakespeare: nats per "
        "character of what follows, with queries and keys as they are, and with their norm taken out first. See it: "
        "satchel train my.txt --set model.scale=none.",
        (
            Matrix(
                "nats per character",
                ((1.838, 1.944), (1.783, 2.016)),
                ("as they are", "normed"),
                ("divided", "not divided"),
            ),
        ),
    ),
    "block": Step(
        "Trained: what the sum is worth",
        "Language models of width 64 after 250 steps on half a million characters of Shakespeare: nats per character "
        "of what follows, with the residual connections and without. 3.29 is what the frequencies of the letters alone "
        "give: without a way around them, eight layers learn nothing else. See it: satchel train my.txt --set "
        "model.residual=false --set model.layers=8.",
        (
            Matrix(
                "nats per character",
                ((2.039, 1.945, 1.915), (2.123, 3.291, 3.292)),
                ("with", "without"),
                ("2 layers", "8 layers", "16 layers"),
            ),
        ),
    ),
    "rnn": Step(
        "Trained: what can be written down is not always found",
        "Models of 128 numbers after 1,500 steps on documents that begin and end with the same name (@recall): how "
        "often the name is recalled, by how many words lie between. A cell could carry it along; within this time "
        "neither finds out how, and attention looks it up from anywhere. See it: satchel train @recall --recipe "
        "recall --set model.layers=1.",
        (
            Matrix(
                "recalled, per cent",
                ((2, 3, 100), (6, 4, 100), (2, 3, 100), (2, 4, 100), (6, 5, 100)),
                ("6-10", "11-20", "21-50", "51-100", "101-200"),
                ("rnn", "lstm", "transformer"),
            ),
        ),
    ),
}
