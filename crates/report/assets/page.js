// Draws the figures whose descriptions stand in #figures, in the colours of the theme, and wires the copy buttons.
(() => {
  "use strict";
  const figures = JSON.parse(document.getElementById("figures").textContent);

  const themed = (value, css) => {
    if (typeof value === "string" && value.startsWith("var(")) return css.getPropertyValue(value.slice(4, -1)).trim();
    if (Array.isArray(value)) return typeof value[0] === "number" ? value : value.map((v) => themed(v, css));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, themed(v, css)]));
    }
    return value;
  };

  const axis = (own) => ({
    gridcolor: "var(--grid)", linecolor: "var(--rule)", zeroline: false, automargin: true,
    ticks: "", separatethousands: true, ...own, title: { standoff: 12, font: { size: 13 }, ...own.title },
  });

  const layout = (own, small) => ({
    font: { family: getComputedStyle(document.body).fontFamily, size: 13, color: "var(--soft)" },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    margin: { l: 8, r: 12, t: 34, b: 8 }, showlegend: true, hovermode: "closest", separators: ".\u202f",
    legend: { orientation: "h", x: 0, xanchor: "left", y: 1.02, yanchor: "bottom", font: { size: small ? 12 : 13, color: "var(--ink)" } },
    hoverlabel: { bgcolor: "var(--panel)", bordercolor: "var(--rule)", font: { color: "var(--ink)" } },
    ...own, xaxis: axis(own.xaxis), yaxis: axis(own.yaxis),
  });

  const config = { responsive: true, displaylogo: false, displayModeBar: false };

  // What the parts of the page that draw by themselves need: colours resolved, the common look of axes.
  // A figure of a run without rules of validity says so itself, also where it is saved.
  const note = document.querySelector(".unvalidated") === null ? [] : [{ text: "unvalidated", xref: "paper", yref: "paper", x: 1, y: 0,
    xanchor: "right", yanchor: "bottom", showarrow: false, font: { size: 12, color: "var(--soft)" } }];
  const plot = async (box, traces, own, small) => {
    const css = getComputedStyle(document.documentElement);
    const annotations = [...(own.annotations || []), ...note];
    await Plotly.react(box, themed(traces, css), themed(layout({ ...own, annotations }, small), css), config);
    offerToSave(box);
  };

  // Saving a figure: as a picture in the colours of the theme, or its numbers.
  const named = (box) => {
    const place = box.closest("figure, details, section");
    const title = box.getAttribute("aria-label") || place?.querySelector("figcaption, h3, h2")?.textContent || box.id;
    return `farlun-${title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60)}`;
  };
  const quoted = (value) => {
    const text = value === null || value === undefined ? "" : String(value).replace(/<[^>]*>/g, " ");
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const numbers = (box) => {
    const axis = (which) => box.layout[which]?.title?.text || which[0];
    const rows = [["series", axis("xaxis"), axis("yaxis")]];
    for (const trace of box.data) {
      const [x, y] = [trace.x, trace.y].map((list) => Array.from(list || []));
      // A gap between two strokes is no point.
      x.forEach((value, i) => { if (value !== null && y[i] !== null) rows.push([trace.name || "", value, y[i]]); });
    }
    return rows.map((row) => row.map(quoted).join(",")).join("\n") + "\n";
  };
  const picture = async (box, format) => {
    const paper = getComputedStyle(document.documentElement).getPropertyValue("--paper").trim();
    const whole = { data: box.data, layout: { ...box.layout, paper_bgcolor: paper } };
    const size = { width: box.clientWidth, height: box.clientHeight };
    return (await fetchless(await Plotly.toImage(whole, { format, scale: format === "png" ? 2 : 1, ...size })));
  };
  // The content security policy forbids to fetch, also an address that holds its data itself.
  const fetchless = (address) => {
    const [head, body] = [address.slice(0, address.indexOf(",")), address.slice(address.indexOf(",") + 1)];
    const bytes = head.endsWith(";base64") ? Uint8Array.from(atob(body), (c) => c.charCodeAt(0)) : decodeURIComponent(body);
    return new Blob([bytes], { type: head.slice(5).split(";")[0] });
  };
  const KINDS = { PNG: (box) => picture(box, "png"), SVG: (box) => picture(box, "svg"),
    CSV: (box) => new Blob([numbers(box)], { type: "text/csv" }) };
  const save = async (box, kind) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(await KINDS[kind](box));
    link.download = `${named(box)}.${kind.toLowerCase()}`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };
  const offerToSave = (box) => {
    if (box.querySelector(":scope > .save")) return;
    const bar = document.createElement("div");
    bar.className = "save";
    for (const kind of Object.keys(KINDS)) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = kind;
      button.title = `Save this figure as ${kind}`;
      button.addEventListener("click", () => save(box, kind).catch(window.farlunFail));
      bar.append(button);
    }
    box.append(bar);
  };

  const drawn = new Set();
  const drawOne = async (figure) => {
    const box = document.getElementById(figure.id);
    drawn.add(figure);
    if (figure.kind) return window.farlunInteractive[figure.kind](box, figure.data, plot);
    return plot(box, figure.traces, figure.layout, box.classList.contains("small"));
  };

  const hidden = (figure) => document.getElementById(figure.id).closest("details:not([open])") !== null;
  const drawVisible = () => Promise.all(figures.filter((f) => !drawn.has(f) && !hidden(f)).map(drawOne));
  const drawAgain = () => Promise.all([...drawn].map(drawOne));

  const openAll = () => {
    if (location.hash === "#all") document.querySelectorAll("details.inside").forEach((d) => { d.open = true; });
  };
  openAll();
  addEventListener("hashchange", openAll);
  document.querySelectorAll("details.inside").forEach((d) => d.addEventListener("toggle", () => drawVisible().catch(window.farlunFail)));

  const copy = async (button) => {
    const source = button.previousElementSibling;
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch {
      // Without leave to use the clipboard the text is at least selected.
      getSelection().selectAllChildren(source);
      button.textContent = "Selected";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  };
  document.querySelectorAll(".command button").forEach((b) => b.addEventListener("click", () => copy(b)));

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAgain);
  const now = figures.filter((f) => !hidden(f)).length;
  document.body.dataset.figures = String(now);
  document.body.dataset.later = String(figures.length - now);
  drawVisible().then(() => { document.body.dataset.ready = "1"; }, window.farlunFail);
})();
