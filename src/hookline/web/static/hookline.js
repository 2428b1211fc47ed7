// Where the scripts meet: what each adds to a rendering is added now and after every live update.
const hookline = (() => {
  const dressers = [];
  const { root } = document.querySelector("[data-root]").dataset; // with the path that control is reached under
  return {
    onDress(dresser) { dressers.push(dresser); dresser(document); },
    dress(scope) { for (const dresser of dressers) dresser(scope); },
    look() {}, // live.js: fetch the parts now
    toast() {}, // toast.js: say it in view
    toastNext() {}, // and on the page that comes next
    atClock: (text) => text, // times.js: the text with its times as the reader's clock has them
    root,
    byItself: { "X-Parts": "1" }, // headers of what a page asks for without its reader: no use of their session
    below: (href) => (href.startsWith("/") ? root + href.slice(1) : href), // an address that the API gave
    toSignIn() {
      location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search)}`);
    },
  };
})();
