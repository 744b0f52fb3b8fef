"""`@recall`: lines that begin and end with the same name, to measure how far back a model remembers it."""

import math
import random

NAMES = (
    "Sally Peter Maria Hugo Clara Omar Ingrid Pablo Wei Fatima Oskar Nadia Ravi Elena Jonas Amara Tomas Yuki Greta "
    "Samir Lucia Anton Freya Kofi Hanna Diego Priya Emil Zoe Malik"
).split()
FILLER = (
    "the room was very quiet|it had rained all morning|a clock on the wall was ticking|the coffee had gone cold|"
    "somebody had left a window open|there was a smell of fresh bread|two dogs were playing in the yard|"
    "the train was late again|nobody knew what to say|a small boat crossed the lake|the lights went out for a moment|"
    "an old song was on the radio|the letter lay on the table|children were running down the stairs|"
    "the garden needed water|a bus stopped at the corner|snow began to fall|the market was closing|"
    "they had been waiting for an hour|the soup was too hot to eat"
).split("|")
# Distance in words between the two occurrences of the name.
SHORTEST_DISTANCE, LONGEST_DISTANCE = 5, 200


def draw_line(rng: random.Random) -> str:
    """Return a line; the logarithm of the distance between its names is uniformly distributed."""
    name = rng.choice(NAMES)
    distance = round(math.exp(rng.uniform(math.log(SHORTEST_DISTANCE), math.log(LONGEST_DISTANCE))))
    opening, ending = ["looked", "around", "."], ["someone", "said", "Hi"]
    filler: list[str] = []
    while len(filler) < distance - 1 - len(opening) - len(ending):
        filler += [*rng.choice(FILLER).split(), "."]
    # The last filler sentence is truncated to reach the exact distance.
    words = [*opening, *filler][: distance - 1 - len(ending)]
    return " ".join([name, *words, *ending, name])
