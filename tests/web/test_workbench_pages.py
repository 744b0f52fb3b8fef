"""The main task of each page of the workbench, by visible text, in a real browser."""

import json
import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.web.workbench import Workbench, number_in

TEXT = "The cat sat on the mat. The dog"


def test_models_lists_runs_and_opens_one(workbench: Workbench) -> None:
    page = workbench.open("models")
    row = page.get_by_role("row", name="Compare transformer")
    expect(row).to_contain_text("bits/byte")
    row.get_by_role("button", name="transformer", exact=True).click()
    expect(page.get_by_role("link", name="Write")).to_have_attribute("aria-current", "page")


def test_write_streams_takes_an_alternative_and_undoes_it(workbench: Workbench) -> None:
    page = workbench.open("write", run="transformer", text="The cat sat")
    tokens = page.get_by_role("listbox", name="Text, as tokens").get_by_role("option")
    expect(tokens.first).to_be_visible()
    prompt = tokens.count()
    page.get_by_label("tokens", exact=True).fill("12")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("button", name="Continue")).to_be_visible()
    expect(page.get_by_text("12 tokens written")).to_have_count(2)  # in the legend, and for screen readers
    branches = page.get_by_role("tree", name="Branches").get_by_role("treeitem")
    expect(branches).to_have_count(2)
    first = workbench.page.get_by_role("listbox", name="Text, as tokens").inner_text()

    tokens.nth(prompt + 1).click()
    page.get_by_role("list", name=re.compile("Alternatives")).get_by_role("button").nth(1).click()
    expect(branches).to_have_count(3)
    expect(page.get_by_role("button", name="Continue")).to_be_enabled()
    assert page.get_by_role("listbox", name="Text, as tokens").inner_text() != first
    branches.nth(1).click()
    expect(page.get_by_role("listbox", name="Text, as tokens")).to_have_text(first, use_inner_text=True)
    page.get_by_role("button", name="Undo").click()
    expect(branches).to_have_count(2)
    page.get_by_role("button", name="Redo").click()
    expect(branches).to_have_count(3)


def test_writing_stops_with_escape_and_keeps_the_tokens(workbench: Workbench) -> None:
    page = workbench.open("write", run="lstm", text="The cat")
    tokens = page.get_by_role("listbox", name="Text, as tokens").get_by_role("option")
    expect(tokens.first).to_be_visible()
    page.get_by_label("tokens", exact=True).fill("400")
    page.get_by_role("button", name="Continue").click()
    expect(page.get_by_role("button", name="Stop")).to_be_visible()
    expect(tokens.nth(6)).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Continue")).to_be_visible()
    assert 6 < tokens.count() < 400


def test_attention_changes_heads_by_keyboard_and_lists_the_largest_weights(workbench: Workbench) -> None:
    page = workbench.open("attention", run="transformer", text=TEXT, layer=0, head=0)
    expect(page.get_by_role("heading", name="Layer 0, head 0")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("^Layer 0, head 0"))).to_be_visible()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("heading", name="Layer 1, head 0")).to_be_visible()
    page.keyboard.press("j")
    page.keyboard.press("j")
    weights = page.get_by_role("list", name="Largest weights").get_by_role("listitem")
    expect(weights.first).to_be_visible()
    page.get_by_role("button", name="Show as table").click()
    row = page.get_by_role("table").get_by_role("row").nth(3).get_by_role("cell").all_inner_texts()
    assert sum(float(cell) for cell in row if cell) == pytest.approx(1, abs=0.01)
    assert number_in(weights.first.inner_text().split()[-1]) == pytest.approx(max(float(each) for each in row if each))


def test_attention_compares_two_texts(workbench: Workbench) -> None:
    page = workbench.open("attention", run="transformer", text="The cat sat", text2="The dog sat")
    expect(page.get_by_role("heading", name="B − A")).to_be_visible()
    expect(page.get_by_role("heading", name="Largest differences")).to_be_visible()


def test_a_page_that_the_model_does_not_have_says_why(workbench: Workbench) -> None:
    page = workbench.open("attention", run="ngram", text=TEXT)
    expect(page.get_by_role("heading", name="A n-gram model has no attention")).to_be_visible()
    page.get_by_role("button", name="Open backpack").click()
    expect(page.get_by_role("heading", name="Attention weights")).to_be_visible()


def test_senses_of_a_word(workbench: Workbench) -> None:
    page = workbench.open("senses", run="backpack", text="The cat sat", word="cat")
    table = page.get_by_role("table").filter(has_text="promotes as next token")
    expect(table.get_by_role("row")).to_have_count(4)
    page.get_by_placeholder("Another word").fill("dog")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Senses of dog")).to_be_visible()


def test_contributions_add_up_to_the_logit(workbench: Workbench) -> None:
    page = workbench.open("senses/context", run="backpack", text="The cat sat")
    line = page.get_by_text("logit from the forward pass")
    expect(line).to_be_visible()
    total, logit = re.findall(r"([−-]?\d+\.\d{6})", line.inner_text())
    assert number_in(total) == pytest.approx(number_in(logit), abs=1e-4)
    before = page.get_by_role("heading", level=1).first.inner_text()
    page.get_by_role("list", name="Next token").get_by_role("button").nth(1).click()
    expect(page.get_by_role("heading", level=1).first).not_to_have_text(before)
    page.get_by_role("radio", name="raw").click()
    expect(page.get_by_text("bias of the head")).to_be_visible()


def test_classify_explains_a_label_and_keeps_variants(workbench: Workbench) -> None:
    page = workbench.open("classify", run="polysemy", text="That trick was sick")
    line = page.get_by_text("logit from the forward pass")
    expect(line).to_be_visible()
    total, logit = re.findall(r"([−-]?\d+\.\d{6})", line.inner_text())
    assert number_in(total) == pytest.approx(number_in(logit), abs=1e-4)
    page.get_by_role("option", name=re.compile("^sick")).click()
    page.get_by_label("instead of").fill("cold")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="That trick was cold", exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="That trick was sick", exact=True)).to_be_visible()


def test_tag_shows_the_tag_of_each_token(workbench: Workbench) -> None:
    page = workbench.open("tag", run="tagger", text="i like movies a lot ")
    tagged = page.get_by_role("group", name="Tokens and their tags").get_by_role("button")
    expect(tagged).to_have_count(20)
    tagged.nth(3).click()
    expect(page.get_by_text("attends to")).to_be_visible()


def test_translate_shows_beam_and_alignment(workbench: Workbench) -> None:
    page = workbench.open("translate", run="translator", text="abcde")
    expect(page.get_by_role("heading", name="All target words")).to_be_visible()
    beam = page.locator(".beam").get_by_role("button")
    expect(beam).to_have_count(4)
    page.get_by_placeholder("Target to score").fill("edcba")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("^edcba score −"))


def test_tokens_of_two_runs(workbench: Workbench) -> None:
    page = workbench.open("tokens", run="transformer", text="The cat sat")
    page.get_by_label("Beside it").select_option("tagger")
    expect(page.get_by_role("heading", name="tagger")).to_be_visible()
    page.get_by_role("listbox", name="Tokens of transformer").get_by_role("option").first.click()
    expect(page.get_by_role("row", name="bytes")).to_contain_text("54")


def test_training_shows_curves_and_the_difference_of_settings(workbench: Workbench) -> None:
    page = workbench.open("training", run="transformer")
    expect(page.get_by_role("img", name=re.compile("Loss on held-out"))).to_be_visible()
    page.get_by_label("Compare with").select_option("lstm")
    expect(page.get_by_role("row", name="model.kind")).to_contain_text("lstm")


def test_compare_shows_which_run_is_better_and_where(workbench: Workbench) -> None:
    page = workbench.open("compare", runs="transformer,lstm")
    expect(page.get_by_role("heading", name="Paired differences")).to_be_visible()
    expect(page.get_by_text(re.compile("^(clear: .* is better|not clear)$")).first).to_be_visible()


def test_lesson_inputs_change_the_results_and_answers_are_checked(workbench: Workbench) -> None:
    page = workbench.open("lessons/attention", step=4)
    output = page.get_by_role("row").filter(has_text="sum").get_by_role("cell").last
    expect(output).to_have_text("1/2")
    page.get_by_label("q B").first.fill("0")
    expect(output).to_have_text("1/4")
    page.get_by_label("What is the output?").fill("3/4 1/4")
    page.get_by_role("button", name="Check", exact=True).click()
    expect(page.get_by_text("Correct.")).to_be_visible()
    page.keyboard.press("Tab")
    page.get_by_role("button", name="Step ›").click()
    expect(page.get_by_role("heading", name="Comparison with a DAN")).to_be_visible()


@pytest.mark.parametrize("name", ["rnn", "block", "encoder-decoder"])
def test_lessons_with_a_diagram(workbench: Workbench, name: str) -> None:
    page = workbench.open(f"lessons/{name}", step=1)
    expect(page.get_by_role("img", name=re.compile("^Diagram of"))).to_be_visible()


def test_the_sick_example_is_shown_as_slide_arithmetic_and_repair(workbench: Workbench) -> None:
    page = workbench.open("lessons/sense-selection", step=8)
    for name in ("Slide", "Arithmetic", "Repair"):
        expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
    page.get_by_role("radio", name="diagonal gate").click()
    expect(page.get_by_text("100.0")).not_to_have_count(0)


def test_editing_is_not_available_yet(workbench: Workbench) -> None:
    page = workbench.open("edit", run="backpack", text="The cat sat")
    expect(page.get_by_role("heading", name="Editing is not available yet")).to_be_visible()


@pytest.mark.parametrize("kind", ["SVG", "PNG", "HTML", "JSON"])
def test_a_view_is_saved_as_a_file(workbench: Workbench, kind: str) -> None:
    page = workbench.open("attention", run="transformer", text="The cat sat", layer=0, head=1)
    expect(page.get_by_role("heading", name="Attention weights")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name=kind, exact=True).click()
    content = download.value.path().read_bytes()
    beginnings = {"SVG": b"<svg", "PNG": b"\x89PNG", "HTML": b"<!doctype html>", "JSON": b"{"}
    assert content.startswith(beginnings[kind])
    if kind == "JSON":
        document: dict[str, Any] = json.loads(content)
        assert document["maps"][0]["weights"]
