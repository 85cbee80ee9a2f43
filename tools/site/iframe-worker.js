/* The search of a page that was opened from the disk: browsers give such a page no Worker, so that the script of one runs
 * in a hidden frame. The `offline` plugin would load the same from a network; its name here is the one it looks for. */
"use strict";

class FrameWorker extends EventTarget {
  constructor(url) {
    super();
    const frame = document.createElement("iframe");
    frame.hidden = true;
    document.body.append(frame);
    this.inside = frame.contentWindow;
    this.inside.document.open();
    this.inside.document.write("<body></body>");
    this.inside.document.close();
    this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
    this.inside.importScripts = (...urls) => urls.reduce((before, each) => before.then(() => this.load(each)), Promise.resolve());
    this.ready = this.load(new URL(url, document.baseURI).href);
  }

  load(url) {
    return new Promise((loaded, failed) => {
      const script = this.inside.document.createElement("script");
      Object.assign(script, { src: url, onload: loaded, onerror: failed });
      this.inside.document.body.append(script);
    });
  }

  postMessage(data) {
    this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data: structuredClone(data) })));
  }
}

if (location.protocol === "file:") {
  window.Worker = FrameWorker;
}
