// Does what a reader does, and leaves in attributes of the body what came of it.
(() => {
  "use strict";
  const note = document.body.dataset;
  const ready = () => new Promise((resolve) => {
    const look = () => (note.ready === "1" ? resolve() : setTimeout(look, 50));
    look();
  });
  const settled = () => new Promise((resolve) => setTimeout(resolve, 400));
  const act = async () => {
    await ready();
    const packets = document.querySelector("#fig-packets-1 .plot");
    const [opened, closed] = packets.layout.xaxis.range;
    note.openedUs = String(closed - opened);
    // What is saved is kept instead of being handed to a browser's download.
    const saved = [];
    URL.createObjectURL = (blob) => { saved.push(blob); return "#"; };
    const figure = document.querySelector("#fig-against-1");
    for (const kind of ["CSV", "SVG"]) {
      const count = saved.length;
      [...figure.querySelectorAll(".save button")].find((b) => b.textContent === kind).click();
      while (saved.length === count) await new Promise((resolve) => setTimeout(resolve, 20));
    }
    note.csv = (await saved[0].text()).split("\n").slice(0, 2).join(" | ");
    note.svg = (await saved[1].text()).slice(0, 4);
    const button = [...document.querySelectorAll("#fig-packets-1 button")].find((b) => b.textContent === "40 µs");
    button.click();
    await settled();
    const [from, to] = packets.layout.xaxis.range;
    note.zoomedUs = String(to - from);
    const hovered = new Promise((resolve) => packets.on("plotly_hover", (event) => resolve(event.points[0].text)));
    const inView = (trace) => trace.x.findIndex((x) => x !== null && x >= from && x <= to);
    const curve = packets.data.findIndex((trace) => trace.name !== "pure ACK" && inView(trace) >= 0);
    const point = inView(packets.data[curve]);
    packets.scrollIntoView({ block: "center" });
    const area = packets.querySelector(".nsewdrag");
    const { left, top } = area.getBoundingClientRect();
    const { xaxis, yaxis } = packets._fullLayout;
    const place = { clientX: left + xaxis.d2p(packets.data[curve].x[point]), clientY: top + yaxis.d2p(packets.data[curve].y[point]) };
    ["mouseover", "mousemove"].forEach((kind) => area.dispatchEvent(new MouseEvent(kind, { ...place, bubbles: true })));
    note.pointed = String(await hovered).replace(/<[^>]*>/g, " ");
    const request = document.querySelector("#fig-request-1");
    [...request.querySelectorAll("button")].find((b) => b.textContent === "slowest").click();
    await settled();
    const stages = request.querySelectorAll(".plot")[1].data[0];
    note.stagesUs = String(stages.x.reduce((sum, x) => sum + x, 0));
    note.latencyUs = String(request.querySelectorAll(".plot")[0].data[1].y[0] * 1e3);
    const [whose, layer] = document.querySelectorAll("#fig-in-flight-1 select");
    const choose = async (select, index) => {
      select.selectedIndex = index;
      select.dispatchEvent(new Event("change"));
      await settled();
    };
    await choose(whose, [...whose.options].findIndex((option) => option.textContent === "session 2"));
    await choose(layer, layer.options.length - 1);
    const [inside, rates] = document.querySelectorAll("#fig-in-flight-1 .plot");
    note.inside = `${inside.data.at(-1).name} at the end of ${inside.data.length}`;
    const { x, y } = rates.data[0];
    note.issued = String(y.slice(0, -1).reduce((sum, rate, i) => sum + rate * (x[i + 1] - x[i]), 0));
    note.acted = "1";
  };
  act().catch(window.farlunFail);
})();
