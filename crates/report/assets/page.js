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
  const plot = (box, traces, own, small) => {
    const css = getComputedStyle(document.documentElement);
    return Plotly.react(box, themed(traces, css), themed(layout(own, small), css), config);
  };

  const drawn = new Set();
  const drawOne = async (figure) => {
    const box = document.getElementById(figure.id);
    drawn.add(figure);
    if (figure.kind) return window.farlunLooking[figure.kind](box, figure.data, plot);
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
