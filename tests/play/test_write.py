"""The tab Write, as a person uses it."""

import ast
import json
import re
import shlex
import subprocess

import pytest
from visits import button, cards, fill, open_options, ready, select, text_of, tokens, write

pytestmark = pytest.mark.browser

WHERE = "it was the best of times, she opened the door"


def test_a_newcomer_makes_a_gap_fills_it_and_draws_a_token_anew(page):
    steps = page.locator(".steps li")
    write(page, WHERE)
    assert steps.nth(0).get_attribute("aria-current") == "step"
    assert button(page, "Fill").is_disabled()
    select(page, "best of times")
    button(page, "Make a gap of the selection").click()
    assert re.fullmatch(r"it was the \[\[\d\]\], she opened the door", text_of(page))
    assert steps.nth(1).get_attribute("aria-current") == "step"
    fill(page, 2)
    assert steps.nth(2).get_attribute("aria-current") == "step"
    assert len(cards(page)) == 2
    for text in cards(page):
        assert text.startswith("it was the")
        assert text.endswith(", she opened the door")
    before = cards(page)
    tokens(page, 0, "settled").first.click()
    law = page.locator(".law li[data-token]")
    law.nth(9).wait_for()
    assert law.count() == 10
    chances = [float(text.replace("< ", "").removesuffix(" %")) for text in page.locator(".law .chance").all_text_contents()]
    assert chances == sorted(chances, reverse=True)
    assert chances[0] > 0
    for _ in range(30):  # one redraw may give the same token; thirty with a flat law do not
        button(page, "Redraw").click()
        page.wait_for_load_state("networkidle")
        if cards(page) != before:
            break
    assert cards(page)[1] == before[1]
    assert cards(page)[0] != before[0]
    assert tokens(page, 0, "drawn").count() == 1
    button(page, "Close").click()
    assert not page.locator(".law").is_visible()


def test_a_pinned_token_stays_when_the_rest_is_drawn_anew_and_a_fill_is_kept(page):
    write(page, "it was the [[6]], she opened the door")
    open_options(page)
    page.get_by_label("Seed").fill("5")  # a backslash that is pinned before a gap would make it plain text
    fill(page, 2)
    tokens(page, 1, "settled").nth(2).click()
    page.locator(".law li[data-token]").first.wait_for()
    button(page, "Pin").click()
    button(page, "Close").click()
    pinned = tokens(page, 1, "pinned").text_content()
    button(page, "Redraw the rest").click()
    page.get_by_text(re.compile("2 fills in")).wait_for()
    assert re.fullmatch(r"it was the (\[\[[23]\]\].*\[\[\d\]\]), she opened the door", text_of(page), re.DOTALL)
    assert text_of(page) == f"it was the [[2]]{pinned.replace('↵', '')}[[3]], she opened the door"
    shown = cards(page)[0]
    button(page, "Keep").first.click()
    assert text_of(page) == shown
    assert not cards(page) or not page.locator(".results").is_visible()
    button(page, "Undo").click()
    assert page.locator(".results").is_visible()
    assert "[[2]]" in text_of(page)
    button(page, "Redo").click()
    assert text_of(page) == shown


def test_gaps_are_resized_by_slider_and_by_number_and_put_back(page):
    write(page, WHERE)
    for stretch in ("best", "opened"):
        select(page, stretch)
        button(page, "Make a gap of the selection").click()
    assert text_of(page) == "it was the [[1]] of times, she [[1]] the door"
    page.get_by_label("Length of gap 1, by slider").fill("7")
    page.get_by_label("Length of gap 2", exact=True).fill("12")
    assert text_of(page) == "it was the [[7]] of times, she [[12]] the door"
    assert page.locator(".paint mark").all_text_contents() == ["[[7]]", "[[12]]"]
    assert page.locator(".gaps .was").all_text_contents() == ["was “best”", "was “opened”"]
    page.get_by_label("Your text").evaluate("(area) => { area.setSelectionRange(0, 0); area.focus(); }")
    page.keyboard.type("Once ")
    assert page.locator(".gaps .was").all_text_contents() == ["was “best”", "was “opened”"]
    button(page, "Put back").first.click()
    assert text_of(page) == "Once it was the best of times, she [[12]] the door"
    page.keyboard.press("Control+z")
    assert text_of(page) == "Once it was the [[7]] of times, she [[12]] the door"
    page.keyboard.press("Control+Shift+z")
    assert text_of(page) == "Once it was the best of times, she [[12]] the door"


def test_the_model_chooses_the_length_of_a_gap_of_any_length(page):
    write(page, "it was the [[3]] of times")
    page.get_by_label("any length").check()
    assert text_of(page) == "it was the [[ ]] of times"
    assert page.get_by_label("Length of gap 1", exact=True).is_disabled()
    page.locator(".gaps li").hover()
    write(page, "it was the [[2-5]] of times")
    fill(page, 2)
    for text in cards(page):
        assert re.fullmatch(r"it was the .{2,5} of times", text, re.DOTALL)
    assert 2 <= tokens(page, 0, "settled").count() <= 5
    tokens(page, 1, "settled").first.click()
    page.locator(".law li[data-token]").nth(9).wait_for()
    button(page, "Redraw").click()
    tokens(page, 1, "drawn").wait_for()
    button(page, "Close").click()
    page.get_by_label("any length").uncheck()
    assert text_of(page) == "it was the [[8]] of times"


def test_the_scrubber_shows_each_step_with_its_states(page):
    write(page, "it was the [[8]] of times")
    fill(page, 1)
    page.emulate_media(reduced_motion="no-preference")
    scrubber, told = page.get_by_label("Step of the chain"), page.locator(".player .told")
    last = int(scrubber.get_attribute("max"))
    assert last >= 8
    final = cards(page)
    counts = []
    for k in range(last + 1):
        scrubber.fill(str(k))
        assert told.text_content() == f"step {k} of {last}"
        counts.append([tokens(page, 0, state).count() for state in ("noise", "drawn", "settled")])
    assert counts[0] == [8, 0, 0]
    assert [noise for noise, _, _ in counts] == sorted((noise for noise, _, _ in counts), reverse=True)
    assert all(drawn <= 1 and noise + drawn + settled == 8 for noise, drawn, settled in counts)
    assert counts[-1][0] == 0
    assert tokens(page, 0, "given").count() > 4
    page.get_by_label("Speed").select_option("4")
    button(page, "Play").click()
    button(page, "Pause").click()
    assert int(scrubber.input_value()) < last
    button(page, "Play").click()
    page.wait_for_function("([input, last]) => input.value === last", arg=[scrubber.element_handle(), str(last)])
    assert cards(page) == final
    button(page, "Play").wait_for()


def test_every_option_goes_into_the_request_and_says_what_it_does(page):
    open_options(page)
    told = page.locator(".panel .field p").all_text_contents()
    assert len(told) == 7
    assert all(20 < len(text) < 120 and text.strip().endswith(".") for text in told)
    page.get_by_label("Order").select_option("random")
    page.get_by_label("Kernel").select_option("reversal")
    for name, value in (("Sweeps", "3"), ("Temperature", "0.8"), ("Top-p", "0.95"), ("Seed", "7")):
        page.get_by_label(name).fill(value)
        page.get_by_label(name).press("Tab")
    assert page.get_by_label("Calls").is_disabled()
    with page.expect_request("**/v1/infill") as sent:
        fill(page, 1)
    asked = json.loads(sent.value.post_data)
    wanted = {"order": "random", "kernel": "reversal", "sweeps": 3, "temperature": 0.8, "top_p": 0.95, "seed": 7}
    assert asked.items() >= wanted.items()
    assert tokens(page, 0, "noise").count() == 0
    scrubber = page.get_by_label("Step of the chain")
    scrubber.fill(str(int(scrubber.get_attribute("max")) // 2))
    assert tokens(page, 0, "draft").count() > 0, "with three sweeps some wait for another visit"


def clipboard(page) -> str:
    return page.evaluate("navigator.clipboard.readText()")


def test_what_is_copied_makes_the_same_fills(page, models, monkeypatch, capsys):
    write(page, "it's the [[3]] of \\[[times]] “é”")
    fill(page, 2)
    shown = cards(page)
    open_options(page)
    button(page, "curl").click()
    page.get_by_text("The command is in the clipboard.").wait_for()
    done = subprocess.run(["bash", "-c", clipboard(page)], capture_output=True, text=True, check=True)
    assert shlex.split(clipboard(page))[0] == "curl"
    texts = json.loads(done.stdout)["texts"]
    assert texts == shown
    button(page, "Python").click()
    page.get_by_text("The Python code is in the clipboard.").wait_for()
    monkeypatch.chdir(models)
    exec(compile(clipboard(page), "copied", "exec"), {})
    assert capsys.readouterr().out == "".join(f"{text}\n" for text in texts)


def test_a_link_brings_everything_back_in_another_browser(page, browser, visit, served):
    write(page, "it was the [[4]] of times")
    open_options(page)
    page.get_by_label("Sweeps").fill("2")
    page.get_by_label("Sweeps").press("Tab")
    fill(page, 2)
    tokens(page, 0, "settled").first.click()
    page.locator(".law li[data-token]").first.wait_for()
    button(page, "Pin").click()
    button(page, "Close").click()
    button(page, "Link").click()
    page.get_by_text("The link is in the clipboard.").wait_for()
    link, shown, size = clipboard(page), cards(page), page.viewport_size
    assert link.startswith(served.url)
    other = browser.new_context(viewport=size)
    there = ready_at(other.new_page(), link)
    assert text_of(there) == text_of(page)
    assert cards(there) == shown
    assert there.get_by_label("Sweeps").input_value() == "2"
    assert tokens(there, 0, "pinned").count() == 1
    assert there.get_by_label("Step of the chain").get_attribute("max") == page.get_by_label("Step of the chain").get_attribute(
        "max"
    )
    assert there.url == f"{served.url}/", "what was brought back does not stay in the address"
    other.close()
    damaged = visit.open(f"{link[:60]}!!")
    damaged.get_by_text("That link is damaged").wait_for()


def last_step(page) -> str:
    return page.get_by_label("Step of the chain").get_attribute("max")


def ready_at(page, url):
    page.goto(url)
    return ready(page)


SENT = """
async (state) => {
  const { toLink } = await import("/store.js");
  return toLink(state);
}
"""
EVIL = {"tokens": [[1]], "pieces": [["<img src=x onerror='window.hit=1'>"]], "sites": ["gap"], "kind": "text", "rows": 1}


@pytest.mark.parametrize(
    "state",
    [
        {"tab": "write", "write": {"doc": {"text": "x [[1]]", "was": [], "fills": {"id": "1", "pins": 3}}, "recording": {}}},
        {"tab": "nonsense", "write": {"doc": None}, "picture": {"doc": {"picture": "http://example.org/x.png", "hole": "all"}}},
        {"tab": "write", "write": {"doc": {"text": "x", "fills": {"id": "1", "upto": 0, "pins": [], "asked": {}}},
                                   "recording": {"start": EVIL, "states": [], "done": None}}},
    ],
    ids=["damaged", "nonsense", "hostile"],
)  # fmt: skip
def test_whatever_a_link_holds_the_page_stays_usable_and_asks_no_other_host(page, visit, served, state):
    link = page.evaluate(SENT, state)
    visit.expected.append("Content Security Policy")
    visit.wrong.clear()
    there = ready(visit.open(served.url + "/" + link))
    assert there.evaluate("window.hit") is None
    write(there, "it was [[3]]")
    fill(there, 1)
    there.reload()
    assert text_of(ready(there)) == "it was [[3]]"


def test_what_a_link_holds_is_no_code_in_the_python_that_is_copied(page, visit, served):
    evil = {"n": "1); print('hit'", "x=1); print('hit') #": 1, "seed": "\"); print('hit') #", "top_p": {"a": ["print()"]}}
    fills = {"id": "1", "upto": 0, "pins": [], "asked": {"model": 'm"\\', "text": "x", **evil}}
    sent = {"doc": {"text": "x", "was": [], "fills": fills}, "options": evil, "recording": {"start": EVIL, "states": []}}
    picture = {"doc": {"picture": None, "hole": None}, "options": evil, "number": evil["n"]}
    link = page.evaluate(SENT, {"tab": "write", "write": sent, "picture": picture})
    there = ready(visit.open(f"{served.url}/{link}"))
    for tab, called in (("Write", ["infill", "load", "print"]), ("Picture", ["enumerate", "load", "sample", "save"])):
        there.get_by_role("tab", name=tab).click()
        open_options(there)
        button(there, "Python").click()
        there.get_by_text("The Python code is in the clipboard.").wait_for()
        calls = [node.func for node in ast.walk(ast.parse(clipboard(there))) if isinstance(node, ast.Call)]
        assert sorted(getattr(call, "id", None) or call.attr for call in calls) == called


def test_nothing_is_lost_by_a_reload(page):
    write(page, "what I wrote [[3]]")
    fill(page, 2)
    shown = cards(page)
    page.get_by_label("Your text").press("End")
    page.keyboard.type(" and more")
    page.reload()
    ready(page)
    assert text_of(page) == "what I wrote [[3]] and more"
    assert cards(page) == shown
    assert page.get_by_text("These belong to an earlier version of your text.").is_visible()
    assert button(page, "Undo").is_disabled(), "there is nothing before it to go back to"
    page.get_by_label("Your text").press("End")
    page.keyboard.type("!")
    page.wait_for_timeout(1100)
    page.keyboard.type("?")
    page.keyboard.press("Control+z")
    assert text_of(page) == "what I wrote [[3]] and more!", "what was typed after a pause is a step of its own"


def test_without_a_gap_the_text_s_own_tokens_can_be_looked_at(page):
    write(page, "she opened the door")
    button(page, "Look at its tokens").click()
    page.get_by_text("Click a token to see").wait_for()
    assert cards(page) == ["she opened the door"]
    tokens(page, 0).nth(1).click()
    page.locator(".law li[data-token]").nth(9).wait_for()
    button(page, "Redraw").click()
    page.wait_for_load_state("networkidle")
    assert tokens(page, 0, "given").count() == tokens(page, 0).count() - 1


HOSTILE = '</textarea></script><script>window.hit=1</script><img src=x onerror="window.hit=1">'


def test_hostile_text_stays_text(page):
    write(page, HOSTILE + "\\[[2]] “<b>” & [[2]]")
    fill(page, 1)
    assert page.evaluate("window.hit") is None
    assert page.locator("main img, main script, main b").count() == 0
    assert cards(page)[0].startswith(HOSTILE + "[[2]] “<b>” & ")
    button(page, "Keep").click()
    assert text_of(page).startswith(HOSTILE + "\\[[2]] “<b>” & ")
    assert page.locator(".gaps li").count() == 0, "brackets that were plain are no gap"


def test_brackets_of_several_tokens_stay_brackets_when_the_rest_is_drawn_anew(page):
    write(page, "a \\[[2]] and [[3]]")
    fill(page, 1)
    tokens(page, 0, "settled").first.click()
    page.locator(".law li[data-token]").first.wait_for()
    button(page, "Pin").click()
    button(page, "Close").click()
    button(page, "Redraw the rest").click()
    page.get_by_text(re.compile("1 fill in")).wait_for()
    assert text_of(page).startswith("a \\[[2]] and ")
    assert page.locator(".gaps li").count() == 1


def test_pasted_brackets_are_brackets(page):
    area = page.get_by_label("Your text")
    area.fill("")
    page.evaluate("navigator.clipboard.writeText('a [[wiki]] link and a gap [[3]]')")
    area.focus()
    page.keyboard.press("Control+v")
    assert text_of(page) == "a \\[[wiki]] link and a gap [[3]]"


def test_all_of_it_goes_by_keyboard(page):
    area = page.get_by_label("Your text")
    area.fill("it was the best of times")
    area.press("Control+a")
    area.press("Control+g")
    assert re.fullmatch(r"\[\[\d\]\]", text_of(page))
    area.press("Control+Enter")
    page.get_by_text(re.compile("2 fills in")).wait_for()
    tokens(page, 0).first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.locator(".law li[data-token]").first.wait_for()
    assert page.evaluate("document.activeElement.textContent") == "Redraw"
    page.keyboard.press("Escape")
    assert not page.locator(".law").is_visible()
    assert "token" in page.evaluate("document.activeElement.className")
    page.get_by_role("tab", name="Write").focus()
    page.keyboard.press("ArrowRight")
    assert page.get_by_role("tab", name="Picture").get_attribute("aria-selected") == "true"


CONTRAST = """
(where) => {
  const linear = (c) => (c / 255 <= 0.03928 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const found = parts(getComputedStyle(at).backgroundColor);
      if (found.length < 4 || found[3] === 1) return found;
    }
  };
  const ratio = (node) => {
    const [a, b] = [light(parts(getComputedStyle(node).color)), light(behind(node))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  };
  const seen = [...document.querySelectorAll(where)].filter((node) => node.offsetParent && !node.closest(".off, :disabled"));
  return seen.map((node) => [node.textContent.slice(0, 30), ratio(node)]);
}
"""
READ = ".legend .token, .said, .panel p, .steps li, .gaps span, .tabs button, button.primary, .player .told"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_can_be_read_in_light_and_dark_and_nothing_is_wider_than_the_screen(page, scheme):
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    write(page, "a longwordwithoutanyspacesthatmustbebrokensomewhereoritdoesnotfitintothescreen " * 3 + "[[3]]")
    fill(page, 2)
    found = page.evaluate(CONTRAST, READ)
    assert len(found) > 10
    assert min(ratio for _, ratio in found) >= 4.5, [entry for entry in found if entry[1] < 4.5]
    for tab in ("Write", "Picture"):
        page.get_by_role("tab", name=tab).click()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_characters_of_several_tokens_are_shown_whole(page):
    """And what is drawn at one of their tokens by hand is told for the whole character."""
    page.locator("#model").select_option("bytes")
    write(page, "“é” 你 [[2]]")
    fill(page, 1)
    assert cards(page)[0].startswith("“é” 你 ")
    page.get_by_label("Step of the chain").fill("0")
    assert cards(page)[0].startswith("“é” 你 ")
    tokens(page, 0).nth(2).click()
    page.locator(".law li[data-token]").nth(9).wait_for()
    assert button(page, "Pin").is_disabled()
    button(page, "Redraw").click()
    page.get_by_label("Step of the chain").and_(page.locator("[max='3']")).wait_for()
    assert len(set(cards(page)[0]) & set("é你")) == 2
    page.locator("#model").select_option("texts")
    tokens(page, 0).first.click()
    page.locator(".law li[data-token]").nth(9).wait_for()  # a fill is asked about at the model that made it
