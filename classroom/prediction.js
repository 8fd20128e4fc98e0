// Places the card that Python drew, and sends what was typed. It decides nothing.

const PATIENCE_MS = 8000;
const SILENT =
  "The kernel does not answer. If it is busy, wait; if it was restarted, run this " +
  "cell again. What you typed is still here.";

function render({ model, el }) {
  // JupyterLab's one-key shortcuts (such as D, D: delete the cell) stay out: it listens
  // further up (since 4.1 as the event bubbles), and no key gets there.
  const stop = (event) => event.stopPropagation();
  el.addEventListener("keydown", stop);

  let waiting = 0;

  function answered(note) {
    clearTimeout(waiting);
    const button = el.querySelector("button");
    if (button) button.disabled = false;
    say(note);
  }

  function say(note) {
    const place = el.querySelector('form [role="status"]');
    if (!place) return;
    place.textContent = note;
    place.classList.toggle("wrong", note !== "");
    const box = el.querySelector('input[type="text"]');
    if (box) box.setAttribute("aria-invalid", String(note !== ""));
    if (box && note) box.focus();
  }

  function send(event) {
    event.preventDefault();
    const form = event.currentTarget;
    const guess = String(new FormData(form).get("answer") ?? "");
    form.querySelector("button").disabled = true;
    clearTimeout(waiting);
    waiting = setTimeout(() => answered(SILENT), PATIENCE_MS);
    model.send({ guess });
  }

  function place() {
    clearTimeout(waiting);
    const hadFocus = el.contains(document.activeElement);
    el.innerHTML = model.get("body");
    el.querySelector("form")?.addEventListener("submit", send);
    // Whoever pressed Enter hears and sees the verdict next, and stays where they were.
    if (hadFocus) el.querySelector(".verdict, input")?.focus({ preventScroll: true });
  }

  const heard = (message) => answered(String(message?.note ?? ""));
  model.on("change:body", place);
  model.on("msg:custom", heard);
  place();
  return () => {
    clearTimeout(waiting);
    el.removeEventListener("keydown", stop);
    model.off("change:body", place);
    model.off("msg:custom", heard);
  };
}

export default { render };
