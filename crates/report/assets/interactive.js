// Draws what is inside a cell: requests in each layer, one of them through all layers, and packets between the hosts.
// Each drawing gets its element, its rows of numbers (see crates/report/src/interactive) and page.js's way of plotting.
(() => {
  "use strict";
  const GAP = "\u202f";
  const grouped = (n) => String(n).replace(/\B(?=(\d{3})+(?!\d))/g, GAP);
  const time = (us) => {
    const a = Math.abs(us);
    if (a >= 1e6) return (us / 1e6).toPrecision(4) + GAP + "s";
    if (a >= 1e3) return (us / 1e3).toPrecision(4) + GAP + "ms";
    return (a >= 100 || us === 0 ? us.toFixed(0) : us.toPrecision(3)) + GAP + "µs";
  };
  const element = (tag, className, parent, text) => {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    parent.append(made);
    return made;
  };
  const niceTicks = (from, to) => {
    const rough = (to - from) / 7;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].find((n) => n * power >= rough) * power;
    const ticks = [];
    for (let t = Math.ceil(from / step) * step; t <= to; t += step) ticks.push(t);
    return ticks;
  };
  const margin = { l: 8, r: 12, t: 10, b: 8 };

  // Requests inside each layer, of all, of a session or of a connection; below, what one layer is handed in a second and
  // what comes back from it.
  const layers = async (box, data, plot) => {
    const state = box.farlunState || { whose: 0, at: data.at, lines: [] };
    const choice = (label, parent) => {
      const select = element("select", "", element("label", "", parent, label));
      select.addEventListener("change", () => { state[select.name] = Number(select.value); show().catch(window.farlunFail); });
      return select;
    };
    const offer = (select, name, options) => {
      select.name = name;
      select.replaceChildren();
      options.forEach(([value, text]) => { element("option", "", select, text).value = value; });
      select.value = state[name];
    };
    if (!box.farlunState) {
      box.farlunState = state;
      const bar = element("div", "bar", box);
      if (data.groups.length > 1) offer(choice(`of${GAP}`, bar), "whose", data.groups.map(([name], i) => [i, name]));
      if (data.more) element("span", "end", bar, `${data.more} more are not drawn: the page has no room for them`);
      state.inside = element("div", "plot tall", box);
      state.layer = choice(`Handed over and come back in a second:${GAP}`, element("div", "bar", box));
      state.rates = element("div", "plot small", box);
    }
    // Times stand in the page as distances, in microseconds.
    const lines = () => state.lines[state.whose] ||= data.groups[state.whose][1].map(([layer, seen, since, inside, step, issued, completed]) => {
      let t = 0;
      const [title, color, width] = data.layers[layer];
      return { layer, title, color, width, seen: seen === 1, x: since.map((d) => (t += d) / 1e6), inside, step, issued, completed };
    });
    const axes = (unit) => ({
      xaxis: { title: { text: "since the load began, s" }, rangemode: "tozero" }, yaxis: { title: { text: unit }, rangemode: "tozero", uirevision: state.whose },
      uirevision: "as it was", margin, shapes: data.window ? [{ type: "rect", xref: "x", yref: "paper", x0: data.window[0], x1: data.window[1],
        y0: 0, y1: 1, fillcolor: "var(--window)", line: { width: 0 }, layer: "below" }] : [],
    });
    const drawInside = () => plot(state.inside, lines().map((l) => ({
      type: "scatter", mode: "lines", name: l.title, uid: `layer-${l.layer}`, x: l.x, y: l.inside, visible: l.seen ? true : "legendonly",
      line: { color: l.color, width: l.width, shape: "hv" }, hovertemplate: `%{y} at %{x:.4f} s<extra>${l.title}</extra>`,
    })), { ...axes("requests inside"), legend: { orientation: "v", x: 1.01, xanchor: "left", y: 1, yanchor: "top",
      font: { size: 12, color: "var(--ink)" }, traceorder: "normal" } });
    const drawRates = () => {
      const line = lines().find((l) => l.layer === state.at) || lines()[0];
      const [begin, step] = line.step;
      // A step lasts until the next begins, the last one too.
      const x = [...line.issued, 0].map((rate, i) => (begin + i * step) / 1e6);
      const trace = (name, rates, own) => ({ type: "scatter", mode: "lines", name, x, y: [...rates, rates.at(-1)],
        line: { shape: "hv", ...own }, hovertemplate: `%{y:.4~g} in a second at %{x:.3f} s<extra>${name}</extra>` });
      return plot(state.rates, [trace("handed over", line.issued, { color: line.color, width: 3.6 }),
        trace("come back", line.completed, { color: "var(--ink)", width: 1.2 })], axes("requests in a second"));
    };
    const show = async () => {
      offer(state.layer, "at", lines().map((l) => [l.layer, l.title]));
      if (state.layer.selectedIndex < 0) state.layer.selectedIndex = 0;
      await Promise.all([drawInside(), drawRates()]);
    };
    await show();
    if (!state.wired) {
      state.wired = true;
      state.inside.on("plotly_relayout", (change) => {
        const range = "xaxis.range[0]" in change ? [change["xaxis.range[0]"], change["xaxis.range[1]"]] : null;
        if (range) Plotly.relayout(state.rates, { "xaxis.range": range });
        else if (change["xaxis.autorange"]) Plotly.relayout(state.rates, { "xaxis.autorange": true });
      });
    }
  };

  // One request: on the left all of them by latency, on the right the stages of the chosen one.
  const request = async (box, data, plot) => {
    const state = box.farlunState || { chosen: (data.examples.find((e) => e[0] === "median") || [null, 0])[1] };
    if (!box.farlunState) {
      box.farlunState = state;
      state.bar = element("div", "bar", box);
      state.buttons = data.examples.map(([name, number]) => {
        const button = element("button", "", state.bar, name);
        button.type = "button";
        button.dataset.request = number;
        button.addEventListener("click", () => { state.chosen = number; show().catch(window.farlunFail); });
        return button;
      });
      state.about = element("span", "end", state.bar);
      const pair = element("div", "pair", box);
      state.cloud = element("div", "plot", pair);
      state.stages = element("div", "plot", pair);
    }
    const rows = data.requests;
    const cloud = () => plot(state.cloud, [
      { type: "scatter", mode: "markers", x: rows.map((r) => r[7]), y: rows.map((r) => r[8]),
        marker: { size: 6, color: "var(--near)", opacity: 0.55 }, customdata: rows.map((r, i) => i),
        hovertemplate: "%{y:.4~g} ms, called at %{x:.4f} s<extra></extra>" },
      { type: "scatter", mode: "markers", x: [rows[state.chosen][7]], y: [rows[state.chosen][8]], hoverinfo: "skip",
        marker: { size: 13, color: "rgba(0,0,0,0)", line: { color: "var(--bad)", width: 2.5 } } },
    ], { showlegend: false, margin, xaxis: { title: { text: "called, s since the load began" } },
      yaxis: { title: { text: "latency, ms" }, rangemode: "tozero" } });
    const stages = () => {
      const chosen = rows[state.chosen];
      const list = chosen[9];
      const total = chosen[8] * 1e3;
      const label = list.map(([from, to], i) => " ".repeat(i) + data.stamps[to][0]);
      const where = list.map(([from, to]) => (data.stamps[from][1] !== data.stamps[to][1] ? "way" : data.stamps[to][1] ? "far" : "near"));
      const hover = list.map(([from, to, start, length]) =>
        `<b>${data.stamps[from][0]} → ${data.stamps[to][0]}</b><br>${time(length)}, ${(total ? 100 * length / total : 0).toFixed(1)}${GAP}%<br>` +
        `from ${time(start)} to ${time(start + length)} after the call`);
      const y = list.map((s, i) => i);
      // The text stands on the side of the bar where there is room.
      const right = list.map(([, , start, length]) => start + length < 0.72 * total);
      const [one, unit] = total > 3e6 ? [1e6, "s"] : total > 3e3 ? [1e3, "ms"] : [1, "µs"];
      const ticks = niceTicks(0, total);
      return plot(state.stages, [
        { type: "bar", orientation: "h", y, x: list.map((s) => s[3]), base: list.map((s) => s[2]), width: 0.72,
          marker: { color: where.map((w) => `var(--${w})`), line: { width: 0 } }, text: hover, textposition: "none",
          hovertemplate: "%{text}<extra></extra>" },
        { type: "scatter", mode: "markers+text", y, x: list.map((s, i) => (right[i] ? s[2] + s[3] : s[2])), hoverinfo: "skip",
          marker: { size: 3, color: where.map((w) => `var(--${w})`) }, cliponaxis: false, text: list.map((s) => ` ${time(s[3])} `),
          textposition: right.map((r) => (r ? "middle right" : "middle left")), textfont: { size: 11, color: "var(--soft)" } },
      ], { showlegend: false, margin, bargap: 0.2,
        xaxis: { title: { text: `${unit} since the call` }, range: [-0.02 * total, 1.04 * total], tickvals: ticks, ticktext: ticks.map((t) => +(t / one).toPrecision(9)) },
        yaxis: { autorange: "reversed", tickvals: y, ticktext: label.map((l) => l.trim()), title: { text: "" }, tickfont: { size: 12 } } });
    };
    const show = async () => {
      const [session, sn, itt, connection, op, offset, length, called, latency] = rows[state.chosen];
      state.about.replaceChildren();
      element("b", "", state.about, `${op} of ${grouped(length)} bytes at ${grouped(offset)}`);
      state.about.append(` · ${time(latency * 1e3)} · cmd_sn ${sn}, itt 0x${itt.toString(16)}, ${session === null ? "a further session" : `session ${session}`}, connection ${connection}`);
      state.buttons.forEach((b) => b.setAttribute("aria-pressed", String(Number(b.dataset.request) === state.chosen)));
      await Promise.all([cloud(), stages()]);
    };
    await show();
    if (!state.wired) {
      state.wired = true;
      state.cloud.on("plotly_click", ({ points: [point] }) => {
        if (point.curveNumber === 0) { state.chosen = point.customdata; show().catch(window.farlunFail); }
      });
    }
  };

  // Packets: more than this many arrows at once are a grey wall and slow; then every n-th is drawn.
  const MOST_ARROWS = 1500;

  const packets = async (box, data, plot) => {
    const state = box.farlunState || {};
    if (!box.farlunState) {
      box.farlunState = state;
      let t = 0;
      state.arrows = data.arrows.map(([from, since, way, kind, segments, ipBytes, first, length, acked, again, pdu, count]) => {
        t += since;
        return { from, t: t / 1e3, way: way < 0 ? null : way / 1e3, kind, segments, ipBytes, first, length, acked, again, pdu, count };
      });
      state.end = t / 1e3;
      state.longest = Math.max(1, ...state.arrows.map((a) => a.way || 0));
      state.bar = element("div", "bar", box);
      [["everything", () => [0, state.end + state.longest]], ["one request", () => wholeRequest() || around(2.6 * state.longest)], ["one round trip", () => around(2.6 * state.longest)],
        ["1 ms", () => around(1e3)], ["40 µs", () => around(40)]].forEach(([name, range]) => {
        const button = element("button", "", state.bar, name);
        button.type = "button";
        button.addEventListener("click", () => zoom(range()));
      });
      state.note = element("span", "end", state.bar);
      state.plot = element("div", "plot packets", box);
      state.view = wholeRequest() || around(2.6 * state.longest, 0);
    }
    // The first request of which the command and its answer are both among the packets, with a little room around it.
    function wholeRequest() {
      const holds = (arrow, byte) => byte >= arrow.first && byte < arrow.first + arrow.length;
      const of = (arrow) => data.pdus.slice(arrow.pdu, arrow.pdu + arrow.count).filter(([from]) => from === arrow.from);
      const open = new Map();
      for (const arrow of state.arrows) {
        for (const [, name, status, itt, , , , first, end] of of(arrow)) {
          if (name === "SCSI Command" && holds(arrow, first) && !arrow.again && !open.has(itt)) open.set(itt, arrow.t);
          const answers = name === "SCSI Response" || status === 1;
          if (answers && holds(arrow, end - 1) && open.has(itt) && arrow.way !== null) {
            const begin = open.get(itt);
            const length = arrow.t + arrow.way - begin;
            return [begin - 0.06 * length, begin + 1.06 * length];
          }
        }
      }
      return null;
    }
    // A stretch of this length that begins a little before the first large packet in view, or at a given moment.
    function around(length, begin) {
      const [from, to] = state.view || [0, 0];
      const inView = state.arrows.filter((a) => a.t >= from + (to - from) * 0.02 && a.t <= to);
      const largest = Math.max(...inView.map((a) => a.length));
      const sent = inView.find((a) => a.length >= largest / 2) || state.arrows[0];
      const start = begin ?? sent.t;
      return [start - 0.06 * length, start + 0.94 * length];
    }
    const zoom = (range) => Plotly.relayout(state.plot, { "xaxis.range": range });

    const describe = (arrow) => {
      const host = ["initiator", "target"];
      const lines = [`<b>${data.kinds[arrow.kind][0]}</b> from the ${host[arrow.from]}${arrow.again ? ", <b>sent again</b>" : ""}`];
      lines.push(`sent ${time(arrow.t)}, ` + (arrow.way === null ? "<b>lost</b>" : `received ${time(arrow.t + arrow.way)} (after ${time(arrow.way)})`));
      const shape = `${grouped(arrow.ipBytes)} bytes of IP` + (arrow.segments > 1 ? ` in ${arrow.segments} packets` : "");
      lines.push(arrow.length ? `${shape}, stream ${grouped(arrow.first)} … ${grouped(arrow.first + arrow.length)}` : shape);
      lines.push(`acknowledges ${grouped(arrow.acked)}`);
      data.pdus.slice(arrow.pdu, arrow.pdu + Math.min(arrow.count, 6)).forEach(([, name, status, itt, sn, offset, bytes, first, end]) => {
        const begins = first >= arrow.first && first < arrow.first + arrow.length;
        const ends = end > arrow.first && end <= arrow.first + arrow.length;
        const part = begins && ends ? "all of" : begins ? "begin of" : ends ? "end of" : "part of";
        lines.push(`${part} ${name}${status && name !== "SCSI Response" ? " with status" : ""}, itt 0x${itt.toString(16)}, cmd_sn ${sn}` +
          (bytes ? `, data ${grouped(offset)} … ${grouped(offset + bytes)}` : "") + `, PDU ${grouped(first)} … ${grouped(end)}`);
      });
      if (arrow.count > 6) lines.push(`and ${arrow.count - 6} PDUs more`);
      return lines.join("<br>");
    };

    const draw = async () => {
      const [from, to] = state.view;
      const arrives = (a) => a.t + (a.way ?? state.longest / 2);
      const within = (t) => t >= from && t <= to;
      const seen = state.arrows.filter((a) => (a.way > to - from ? within(a.t) || within(arrives(a)) : a.t <= to && arrives(a) >= from));
      const stub = (to - from) * 0.04;
      const step = Math.ceil(seen.length / MOST_ARROWS);
      const shown = step > 1 ? seen.filter((a, i) => i % step === 0) : seen;
      const traces = data.kinds.map(([name, color], kind) => {
        const list = shown.filter((a) => a.kind === kind);
        if (list.length === 0) return null;
        const trace = { type: "scatter", mode: "lines+markers", name, x: [], y: [], text: [], hovertemplate: "%{text}<extra></extra>",
          line: { color, width: kind === 5 ? 1 : 1.6 },
          marker: { color, size: [], symbol: [], angleref: "previous", opacity: 1 } };
        // From one point to another with an arrow's head, or with nothing at its end.
        const stroke = (a, from, to, head) => {
          const text = describe(a);
          trace.x.push(from[0], to[0], null);
          trace.y.push(from[1], to[1], null);
          trace.text.push(text, text, "");
          trace.marker.size.push(4, head === "" ? 0 : 9, 0);
          trace.marker.symbol.push("circle", head || "circle", "circle");
        };
        list.forEach((a) => {
          const [start, end] = [1 - a.from, a.from];
          const middle = (share) => start + (end - start) * share;
          if (a.way === null) stroke(a, [a.t, start], [a.t + Math.min(state.longest / 2, stub * 3), middle(0.5)], "x");
          else if (a.way <= to - from) stroke(a, [a.t, start], [a.t + a.way, end], "arrow");
          else {
            // A way longer than the view would lie flat on the hosts' lines: only its beginning and its end are drawn.
            stroke(a, [a.t, start], [a.t + stub, middle(0.3)], "");
            stroke(a, [a.t + a.way - stub, middle(0.7)], [a.t + a.way, end], "arrow");
          }
        });
        return trace;
      }).filter((trace) => trace !== null);
      const unit = to - from > 3e6 ? [1e6, "s"] : to - from > 3e3 ? [1e3, "ms"] : [1, "µs"];
      const ticks = niceTicks(from, to);
      const since = data.start_s === null ? "" : `; 0 is ${data.start_s.toFixed(4)} s after the load began`;
      state.note.textContent = `${grouped(shown.length)} of ${grouped(seen.length)} packets in view drawn` +
        (data.others ? `; ${grouped(data.others)} more in the run` : "") + (state.longest > to - from ? "; ways longer than the view are cut" : "");
      state.drawing = true;
      await plot(state.plot, traces, {
        margin: { ...margin, t: 34 }, dragmode: "zoom", hoverdistance: 12, legend: { orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom", font: { size: 12, color: "var(--ink)" } },
        xaxis: { title: { text: `${unit[1]}${since}` }, range: [from, to], tickvals: ticks, ticktext: ticks.map((t) => +(t / unit[0]).toPrecision(9)) },
        yaxis: { range: [-0.1, 1.1], tickvals: [0, 1], ticktext: [`target<br>${data.far}`, `initiator<br>${data.near}`], fixedrange: true, title: { text: "" }, gridcolor: "var(--soft)" },
      });
      state.drawing = false;
    };

    await draw();
    if (!state.wired) {
      state.wired = true;
      state.plot.on("plotly_relayout", (change) => {
        if (state.drawing) return;
        const range = change["xaxis.range"] || ("xaxis.range[0]" in change ? [change["xaxis.range[0]"], change["xaxis.range[1]"]] : null);
        if (!range && !change["xaxis.autorange"]) return;
        state.view = range || [0, state.end + state.longest];
        draw().catch(window.farlunFail);
      });
    }
  };

  window.farlunInteractive = { layers, request, packets };
})();
