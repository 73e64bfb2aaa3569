// The page's frame: it shows the page that the address names.

import { element } from "./elements.js";
import * as explore from "./explore.js";
import * as fit from "./fit.js";
import { formatRoute, parseRoute } from "./route.js";
import { hideTooltip } from "./tooltip.js";
import * as leaderboards from "./leaderboards.js";
import * as observation from "./observation.js";
import * as regressions from "./regressions.js";
import * as sources from "./sources.js";

const PAGES = { fit, explore, leaderboards, regressions, sources, observation };
const LISTED = ["fit", "explore", "leaderboards", "regressions", "sources"];

const main = document.getElementById("main");

function showNavigation(current) {
  const links = LISTED.map((name) =>
    element("a", { href: formatRoute(name), "aria-current": name === current ? "page" : null }, PAGES[name].title),
  );
  document.getElementById("pages").replaceChildren(...links);
}

async function showPage() {
  const route = parseRoute(location.hash);
  const page = PAGES[route.page];
  hideTooltip();
  showNavigation(route.page);
  document.documentElement.dataset.ready = "";
  document.title = `${page?.title ?? "Not found"} · peft-registry`;
  try {
    if (page) await page.show(main, route);
    else main.replaceChildren(element("h1", {}, "There is no such page"), element("p", {}, "Choose one of those above."));
  } catch (problem) {
    main.replaceChildren(element("h1", {}, "This page cannot be shown"), element("p", {}, problem.message));
    console.error(problem);
  }
  document.documentElement.dataset.ready = route.page;
}

/** Go to another page: its beginning is shown and read out. */
async function changePage() {
  await showPage();
  scrollTo(0, 0);
  main.focus({ preventScroll: true });
}

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", changePage);
addEventListener("scroll", hideTooltip, { passive: true });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showPage);

const about = JSON.parse(document.getElementById("about").textContent);
document.getElementById("footer").append(
  element("p", {}, `${about.observations.toLocaleString("en-US")} observations from ${about.sources} sources, made by registry ${about.version}${about.built ? ` on ${about.built}` : ""}. `,
    "Figures of each source under its own licence (see Sources); our selection: CC-BY-4.0."),
  element("p", {}, "Drawn with Vega and Vega-Lite, read with hyparquet and fzstd; ",
    about.licences ? element("a", { href: about.licences }, "their licences") : "their licences are in the registry's package", "."),
);

showPage();
