// Keeps pages as new as what the console has heard, draws the curve of lag, and has "/" go to the search.
(() => {
  "use strict";
  const body = document.body;
  const group = body.dataset.group;
  const PAUSE_MS = 2000;
  let last = 0;
  let waiting = null;

  // The guard answers what changes something only with this header, which no page of another site can send.
  document.addEventListener("htmx:configRequest", (event) => {
    event.detail.headers["X-Kcoord-Console"] = "page";
  });
  // A refusal is a page too, and is shown.
  document.addEventListener("htmx:beforeSwap", (event) => {
    const kind = event.detail.xhr.getResponseHeader("content-type") || "";
    if (event.detail.xhr.status >= 400 && kind.startsWith("text/html")) {
      event.detail.shouldSwap = true;
      event.detail.isError = false;
    }
  });

  const refresh = () => {
    waiting = null;
    last = Date.now();
    if (!document.hidden) {
      htmx.trigger(body, "changed");
      draw();
    }
  };
  const soon = () => {
    if (waiting === null) {
      waiting = setTimeout(refresh, Math.max(0, last + PAUSE_MS - Date.now()));
    }
  };

  // A browser has six connections to a console, and a stream keeps one of them. So the pages that are seen share one
  // stream: that of whichever has the lock, which passes what comes on to the others. Pages that are not seen have none.
  const NAME = "kcoord-changes";
  const AGAIN_MS = 15000;
  let others = null;
  try {
    others = new BroadcastChannel(NAME);
  } catch {
    // An old browser, or one that lets sites keep nothing: each of its pages has a stream of its own.
  }
  let leave = () => {};
  let attempt = null;
  const take = (change) => {
    if (change.is_cluster || !group || change.more > 0 || change.groups.includes(group)) {
      soon();
    }
  };
  const tell = (change) => {
    others?.postMessage(change);
    take(change);
  };
  const listen = () => new Promise((end) => {
    const stream = new EventSource("/api/v1/changes");
    stream.addEventListener("open", () => tell({ is_cluster: true })); // nobody has heard what changed before
    stream.addEventListener("change", (event) => tell(JSON.parse(event.data)));
    stream.addEventListener("error", () => {
      if (stream.readyState === EventSource.CLOSED) { // the console has refused it
        leave();
        attempt = setTimeout(follow, AGAIN_MS);
      }
    });
    leave = () => {
      stream.close();
      end();
    };
  });
  const follow = () => {
    clearTimeout(attempt);
    leave();
    if (document.hidden) {
      return;
    }
    const asking = new AbortController();
    leave = () => asking.abort();
    if (others && navigator.locks) {
      const turn = () => (asking.signal.aborted ? null : listen());
      const alone = () => asking.signal.aborted || listen(); // it has left before its turn, or there are no locks here
      navigator.locks.request(NAME, { signal: asking.signal }, turn).catch(alone);
    } else { // browsers have locks for localhost and TLS alone
      listen();
    }
  };
  if (body.dataset.live === "yes") {
    others?.addEventListener("message", (event) => take(event.data));
    document.addEventListener("visibilitychange", () => {
      follow();
      document.hidden || soon();
    });
    follow();
    setInterval(soon, AGAIN_MS); // ages grow also while nothing changes
  }

  document.addEventListener("keydown", (event) => {
    const into = event.target.closest("input, select, textarea");
    const search = document.getElementById("search");
    if (event.key === "/" && !into && search && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      search.focus();
    }
  });

  let plot = null;
  const place = document.getElementById("curve");
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const draw = async () => {
    if (!place) {
      return;
    }
    let said;
    try {
      said = await fetch(place.dataset.url);
    } catch {
      return; // the console is gone: the banner of the page says so when it is back
    }
    if (!said.ok) {
      return;
    }
    const curve = await said.json();
    const data = [curve.at_ms.map((at) => at / 1000), curve.lag];
    if (plot !== null) {
      plot.setData(data);
      return;
    }
    const axis = { stroke: color("--soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") } };
    plot = new uPlot({
      width: place.clientWidth, height: 220, legend: { show: false }, cursor: { drag: { x: false, y: false } },
      scales: { y: { range: (_, low, high) => [0, Math.max(1, high ?? 1) * 1.1] } },
      series: [{}, { label: "lag", stroke: color("--link"), width: 2, points: { show: curve.at_ms.length < 3 } }],
      axes: [axis, { ...axis, size: 70 }],
    }, data, place);
  };
  const again = () => {
    if (plot !== null) {
      plot.destroy();
      plot = null;
    }
    draw();
  };
  draw();
  addEventListener("resize", () => plot !== null && plot.setSize({ width: place.clientWidth, height: 220 }));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
})();
