// Search runs in a worker, and a page that was opened from a folder may start none: there a hidden frame stands in for it.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inner = frame.contentWindow;
      this.inner.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inner.importScripts = (...urls) => urls.forEach(each => this.inner.document.write(`<script src="${each}"></scr` + "ipt>"));
      const script = this.inner.document.createElement("script");
      script.src = new URL(url, document.baseURI).href;
      script.onload = () => {
        this.ready = true;
        this.waiting.forEach(data => this.postMessage(data));
      };
      this.inner.document.body.append(script);
    }

    postMessage(data) {
      if (this.ready) this.inner.dispatchEvent(new MessageEvent("message", { data }));
      else this.waiting.push(data);
    }

    set onmessage(listener) {
      this.addEventListener("message", listener);
    }

    terminate() {
      this.inner.frameElement.remove();
    }
  };
}
