// How a request is shown as it goes out, and what came back; with the curl line that sends the same.
(() => {
  const { outcomeWord, took, make, copyable, quoted } = hookline.elements;

  const curlOf = (request) => {
    const flags = request.headers
      .filter(({ name }) => !/^(host|content-length)$/i.test(name))
      .map(({ name, value }) => ` \\\n  -H ${quoted(`${name}: ${value}`)}`).join("");
    const data = request.body ? ` \\\n  --data-binary ${quoted(request.body)}` : "";
    return `curl -X ${request.method} ${quoted(request.url)}${flags}${data}`;
  };

  const paste = (text) => make("div", { class: "paste" }, make("pre", { tabindex: "0" }, make("code", {}, text)));
  const linesOf = (headers) => headers.map(({ name, value }) => `${name}: ${value}`).join("\n");

  // A request: head and body, the curl line, and what its signature is over.
  const request = (each) => make("div", { class: "as-sent" },
    paste(`${each.method} ${each.target} HTTP/1.1\n${linesOf(each.headers)}\n\n${each.body}`),
    make("p", { class: "detail-tools" }, copyable("Copy as curl", () => curlOf(each)), copyable("Copy body", () => each.body)),
    each.masked ? make("p", { class: "hint" }, "Credentials are masked here. The real request has them.") : null,
    ...each.signatures.map(({ header, algorithm, signedContent }) => make("p", { class: "hint" },
      `${header} is ${algorithm}, of ${signedContent === each.body ? "the exact bytes of the body" : "id, time and body, joined with full stops"}.`)));

  const MEANS = { accepted: "The event would be delivered.", retried: "Hookline would retry it.", refused: "The event would become a dead letter." };
  const PARTS = [["dns", "DNS"], ["connect", "connect"], ["tls", "TLS"], ["wait", "wait"], ["total", "total"]];
  const answer = (each) => {
    const good = each.outcome === "success";
    const word = outcomeWord(each.outcome);
    const times = PARTS.filter(([part]) => each.milliseconds[part] !== null)
      .map(([part, name]) => make("span", {}, make("span", { class: "muted" }, name), ` ${took(each.milliseconds[part])}`));
    return make("div", { class: "answer" },
      make("p", {}, make("span", { class: `mark ${good ? "good" : "dead"}` }, make("span", { "aria-hidden": "true" }, good ? "●" : "■"), ` ${word}`),
        each.httpStatus ? ` ${each.httpStatus}` : "", each.address ? make("span", { class: "muted mono" }, ` ${each.address}`) : null),
      each.means ? make("p", { class: "muted" }, [MEANS[each.means], each.nextStep].filter(Boolean).join(" ")) : null,
      make("p", { class: "numbers" }, ...times),
      each.error ? make("p", { class: "problem" }, make("bdi", { class: "error-text" }, each.error)) : null,
      each.headers.length || each.body ? paste(`${linesOf(each.headers)}\n\n${each.body}${each.bodyCut ? "\n… cut after 64 KB" : ""}`) : null);
  };

  // What a test says before its answers: why an event like it would not be sent, and which requests cannot be made.
  const unsent = ({ routing: { sent, reason, stoppedBy }, requests, type }, reasons) => {
    if (sent) return null;
    if (type === "delete" && stoppedBy) return make("p", { class: "problem" }, `■ ${reason}.`);
    return make("p", { class: "problem" }, `Hookline would not send an event like this: ${stoppedBy || reasons[reason] || reason}. ${requests.length ? "The test is sent anyway." : ""}`);
  };
  const impossible = ({ problems }) => problems.map(({ pointer, detail }) => make("p", { class: "error" }, "■ This request cannot be made: ", make("code", {}, pointer), ` ${detail}`));

  // What was kept of an answer: the beginning of its head and body.
  const answered = ({ httpStatus, headers, body }) => make("div", { class: "answer" },
    make("h3", {}, `Answered ${httpStatus}`), paste(`${linesOf(headers)}\n\n${body}`));

  hookline.asSent = { request, answer, answered, unsent, impossible };
})();
