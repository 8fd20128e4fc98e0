// Places what Python drew and reports what the reader did. It holds no logic and draws
// nothing: every picture and every piece of HTML comes ready (and escaped) from Python.

const MOVE = 260; // ms, and none of it for readers who ask for less motion
const PATIENCE = 3000; // ms after which an unanswered request no longer blocks others

const still = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

// --- the picture: same ids, new places ----------------------------------------------

const spot = (g) => g.getAttribute("transform") ?? g.firstElementChild?.getAttribute("d");
const css = (place) => place.replace(/([\d.-]+)[ ,]+([\d.-]+)/, "$1px,$2px");

function spots(host) {
  return new Map([...host.querySelectorAll("g[id]")].map((g) => [g.id, spot(g)]));
}

const twin = (id) => id.replace(/-([qb])(\d+)$/, (_, kind, n) => (kind === "q" ? "-b" : "-q") + n);

function animate(g, before) {
  const now = spot(g);
  if (before === now) return;
  const moves = before?.startsWith("translate") && now?.startsWith("translate");
  const frames = moves
    ? [{ transform: css(before) }, { transform: css(now) }]
    : [{ opacity: 0 }, { opacity: 1 }];
  g.animate(frames, { duration: MOVE, easing: "ease-out" });
}

// What is wider than its room scrolls, by key too.
function reach(host) {
  if (host.scrollWidth > host.clientWidth + 1) host.setAttribute("tabindex", "0");
  else host.removeAttribute("tabindex");
}

function placePicture(host, svg) {
  if (host.placed === svg) return; // while somebody types, say
  host.placed = svg;
  const before = spots(host);
  const focused = host.contains(document.activeElement) && document.activeElement.id;
  host.style.minHeight = `${Math.max(parseFloat(host.style.minHeight) || 0, host.scrollHeight)}px`;
  host.innerHTML = svg;
  host.style.minHeight = "";
  reach(host);
  if (before.size && !still()) {
    for (const g of host.querySelectorAll("g[id]")) {
      // A cell that is new in the queue comes from where its block stands, and back.
      animate(g, before.get(g.id) ?? before.get(twin(g.id)));
    }
  }
  const chosen = host.querySelector("[aria-selected=true]");
  const first = chosen ?? host.querySelector("[data-key]");
  first?.setAttribute("tabindex", "0");
  if (focused) (host.querySelector(`#${CSS.escape(focused)}`) ?? first)?.focus();
}

// Any other part. A button in it that had the focus has it again; if it is gone, the one
// that now stands in its place.
function placePart(host, html) {
  if (host.placed === html) return;
  const buttons = () => [...host.querySelectorAll("button[data-act]")];
  const at = buttons().indexOf(document.activeElement);
  const { act, value } = at < 0 ? {} : document.activeElement.dataset;
  host.innerHTML = host.placed = html;
  if (at < 0) return;
  const now = buttons();
  const same = now.find((one) => one.dataset.act === act && one.dataset.value === value);
  (same ?? now[at] ?? now.at(-1) ?? resting(host.closest(".kvstage")))?.focus();
}

// Where the focus rests when no button is left: with the page's body it would be lost.
function resting(stage) {
  stage.tabIndex = -1;
  stage.addEventListener("blur", () => stage.removeAttribute("tabindex"), { once: true });
  return stage;
}

const FIELD = "input, textarea, select";
const TEXT = "textarea, input[type=text]";
const MOST = 4 << 20; // bytes of a file that are read
const GONE = "<b>Python was restarted</b>, and what stood here is gone there: run the cell again.";

// --- keys: left and right in a row, up and down between rows ------------------------

const x = (g) => g.getBoundingClientRect().left;
const keyed = (list) => [...list.querySelectorAll("[data-key]")];

function neighbour(here, key) {
  const lists = [...(here.closest("[data-part=picture]") ?? here.closest("svg")).querySelectorAll("[role=listbox]")];
  const row = here.closest("[role=listbox]");
  const items = keyed(row);
  const at = items.indexOf(here);
  if (key === "ArrowLeft") return items[at - 1];
  if (key === "ArrowRight") return items[at + 1];
  if (key === "Home") return items[0];
  if (key === "End") return items.at(-1);
  const next = lists[lists.indexOf(row) + (key === "ArrowUp" ? -1 : 1)];
  const far = (g) => Math.abs(x(g) - x(here));
  return next && keyed(next).reduce((a, b) => (far(b) < far(a) ? b : a));
}

// JupyterLab's own keys (`a` for a new cell, `d d` to delete one) stay out. It asks the
// element that has the focus, so each one that can have it carries the mark.
function shield(host) {
  host.dataset.lmSuppressShortcuts = "true";
  for (const one of host.querySelectorAll("button, input, textarea, select, summary, [data-key], [data-part=picture], .kvroom"))
    one.dataset.lmSuppressShortcuts = "true";
}

// --- the widget ---------------------------------------------------------------------

function render({ model, el }) {
  el.classList.add("kvstage");
  el.innerHTML = model.get("shell");
  const part = (name) => el.querySelector(`[data-part=${name}]`);
  const me = Math.random().toString(36).slice(2, 10); // this view, of perhaps several
  let sent = 0; // how many requests, and the last of them that has an answer
  let answered = 0;
  let asked = 0; // when a request went out that has no answer yet
  let waiting = []; // what the reader did meanwhile, in order
  let composing = null; // the field where an input method is at work
  let timer = 0;

  function send(message) {
    clearTimeout(timer); // the reader comes before the next tick
    queue(message);
    if (!asked || Date.now() - asked >= PATIENCE) next();
  }

  function next() {
    asked = Date.now();
    try {
      model.send({ ...waiting.shift(), id: `${me}:${++sent}`, n: model.get("frame").n });
    } catch {
      placePart(part("error"), GONE);
    }
  }

  // No step is lost and no press of a button that says which; of a dragged slider the
  // last place counts, of a text that is typed the last state.
  function queue(message) {
    const last = waiting.at(-1);
    if (last?.act !== message.act || message.press || last.press || message.act === "play") waiting.push(message);
    else if ("text" in message) last.text = message.text;
    else if ("value" in message) last.value = message.value;
    else last.value = (last.value ?? 1) + 1; // so many steps
  }

  function update() {
    const frame = model.get("frame");
    const [who, number] = (frame.heard ?? "").split(":");
    if (who === me) answered = Number(number);
    const behind = waiting.length > 0 || answered < sent; // Python has not heard it all
    for (const [name, html] of Object.entries(frame.parts ?? {})) {
      if (name === "picture") placePicture(part(name), html);
      else if (part(name)) placePart(part(name), html);
    }
    for (const [act, values] of Object.entries(frame.controls ?? {})) {
      const control = el.querySelector(`[data-act=${act}]`);
      const busy = control === composing || (behind && control?.matches(FIELD) && control === document.activeElement);
      if (control && !busy) {
        Object.assign(control, values);
        if (values.label) control.setAttribute("aria-label", values.label);
        if (values.valueText) control.setAttribute("aria-valuetext", values.valueText);
      }
    }
    shield(el);
    asked = 0;
    clearTimeout(timer);
    if (waiting.length) next();
    else if (frame.tick) timer = setTimeout(() => send({ act: "tick" }), frame.tick);
  }

  function select(key) {
    model.set("selected", key);
    model.save_changes();
  }

  function onClick(event) {
    const button = event.target.closest("button[data-act]");
    if (button?.dataset.value) send({ act: button.dataset.act, value: Number(button.dataset.value), press: true });
    else if (button) send({ act: button.dataset.act });
    const thing = event.target.closest("[data-key]");
    if (thing) {
      thing.focus();
      select(thing.dataset.key);
    } else if (event.target.closest("svg")) select("");
  }

  // While an input method composes, what stands in the field is not yet a text.
  function onCompose(event) {
    composing = event.type === "compositionstart" ? event.target : null;
    if (!composing) onInput(event);
  }

  async function onInput(event) {
    const field = event.target;
    const { act } = field.dataset;
    if (!act || event.isComposing) return;
    if (field.type === "file") {
      const text = await field.files[0]?.slice(0, MOST).text().catch(() => "");
      field.value = ""; // so that the same file can be chosen again
      if (text !== undefined) send({ act, text });
    } else if (field.matches(TEXT)) send({ act, text: field.value });
    else if (field.type === "checkbox") send({ act, value: Number(field.checked) });
    else if (field.value !== "") send({ act, value: Number(field.value) });
  }

  function onKey(event) {
    const thing = event.target.closest("[data-key]");
    const key = event.key;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const enters = key === "Enter" && !event.shiftKey && !event.isComposing && event.target.dataset.enter;
    if (enters) send({ act: enters });
    else if (thing && /^(Arrow|Home|End)/.test(key)) {
      const there = neighbour(thing, key);
      there?.focus();
      if (there) select(there.dataset.key);
    } else if (thing && (key === "Enter" || key === " ")) select(thing.dataset.key);
    else if (thing && key === "Escape") select("");
    else if (!onPlayerKey(event, key)) return;
    event.preventDefault();
    event.stopPropagation();
  }

  // A Player is worked by the same keys wherever the focus is in it.
  function onPlayerKey(event, key) {
    const inField = event.target.matches("input, textarea, select, summary, [data-part=picture], .kvroom");
    const onButton = event.target.matches("button");
    if (inField || (onButton && (key === " " || key === "Enter")))
      return false;
    const acts = { ArrowLeft: "back", ArrowRight: "forward", Home: "first", End: "last", " ": "play" };
    if (!acts[key] || !el.querySelector(`[data-act=${acts[key]}]`)) return false;
    send({ act: acts[key] });
    return true;
  }

  // JupyterLab prevents a new line in a cell, taking it for a command of its own. It
  // listens at the field itself, so the event must not get there.
  function onNewLine(event) {
    if (event.inputType === "insertLineBreak") event.stopImmediatePropagation();
  }

  function onHover(event) {
    const about = event.target.closest?.("[data-b]")?.dataset.b;
    const pool = event.target.closest?.("[data-pool]") ?? el; // one of several
    for (const g of pool.querySelectorAll("[data-b]"))
      g.classList.toggle("hot", event.type === "pointerover" && g.dataset.b === about);
  }

  const heard = { click: onClick, input: onInput, compositionstart: onCompose, compositionend: onCompose, keydown: onKey, pointerover: onHover, pointerout: onHover };
  for (const [name, hear] of Object.entries(heard)) el.addEventListener(name, hear);
  el.addEventListener("beforeinput", onNewLine, true);
  model.on("change:frame", update);
  update();
  const sizes = new ResizeObserver(() => reach(part("picture")));
  sizes.observe(part("picture"));
  return () => {
    sizes.disconnect();
    clearTimeout(timer);
    model.off("change:frame", update);
    for (const [name, hear] of Object.entries(heard)) el.removeEventListener(name, hear);
    el.removeEventListener("beforeinput", onNewLine, true);
  };
}

export default { render };
