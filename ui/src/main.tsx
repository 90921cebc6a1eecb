/** Starts the page: unpacks its data, draws it, and, where it is served, loads it again when its files change. */

import { render } from "preact";

import { App } from "./app";
import { layouter } from "./canvas";
import { readData, unpack } from "./data";

async function start(): Promise<void> {
  const root = document.getElementById("app")!;
  try {
    const data = readData(await unpack("regraft-data"));
    root.replaceChildren();
    render(<App data={data} />, root);
    layouter.warm();
    // What waits for the page to be usable, a test or a measurement, waits for this.
    requestAnimationFrame(() => (document.documentElement.dataset["ready"] = String(Math.round(performance.now()))));
    if (data.reload !== null) void watch(data.reload);
  } catch (error) {
    root.textContent = `This page cannot be shown: ${error instanceof Error ? error.message : String(error)}. It needs a browser of 2023 or newer.`;
  }
}

/** Ask the server again and again for the number of the page; another number than at first means a new page. */
async function watch(address: string): Promise<void> {
  let first: string | undefined;
  for (;;) {
    try {
      const answer = await fetch(address, { cache: "no-store" });
      const number = await answer.text();
      first ??= number;
      if (number !== first) {
        window.location.reload();
        return;
      }
    } catch {
      // The server has gone; it may come back.
    }
    await new Promise((done) => setTimeout(done, 700));
  }
}

void start();
