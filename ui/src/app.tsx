/** The page: its tabs, its keys, light and dark. */

import type { VNode } from "preact";
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";

import type { Focus } from "./canvas";
import type { Data } from "./data";
import { CompareView, focusOn, GraphView, StepsView, type Selection } from "./graphs";
import { ShardingView, TimeView } from "./measured";
import { History } from "./program";
import { Summary } from "./summary";
import { WhyNotView } from "./whynot";

type Tab = "summary" | "graph" | "compare" | "steps" | "why" | "time" | "sharding";

const NAMES: Record<Tab, string> = {
  summary: "Summary", graph: "Graph", compare: "Before and after", steps: "Steps", why: "Why not", time: "Time", sharding: "Devices",
};

type Theme = "auto" | "light" | "dark";

export function App(props: { data: Data }): VNode {
  const { data } = props;
  const history = useMemo(() => new History(data), [data]);
  const tabs = useMemo(() => tabsOf(data, history), [data, history]);
  const [tab, setTab] = useState<Tab>(() => startTab(tabs, data.start));
  const [selection, setSelection] = useState<Selection>({ node: null, group: null });
  const [focus, setFocus] = useState<Focus | null>(null);
  const [moment, setMoment] = useState(history.moments.length > 1 ? 1 : 0);
  const [theme, setTheme] = useState<Theme>("auto");
  const [help, setHelp] = useState(false);
  const search = useRef<HTMLInputElement>(null);
  const show = useCallback((next: Tab) => {
    setTab(next);
    // A page inside another one may have no place in the history of its own.
    try { window.history.replaceState(null, "", `#${next}`); } catch { /* the tab is shown all the same */ }
  }, []);
  const goTo = useCallback((node: number) => {
    setSelection({ node, group: null });
    setFocus(focusOn(node));
    show("graph");
  }, [show]);
  useEffect(() => {
    document.documentElement.dataset["theme"] = theme;
  }, [theme]);
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      const inField = event.target instanceof HTMLInputElement && event.target.type !== "range" && event.target.type !== "checkbox";
      if (inField || event.altKey || event.ctrlKey || event.metaKey) return;
      const wanted = tabs[Number(event.key) - 1];
      if (wanted !== undefined) show(wanted);
      else if (event.key === "/") {
        if (tab !== "graph") show("graph");
        setTimeout(() => search.current?.focus());
      } else if (event.key === "?") setHelp(true);
      else if (event.key === "]" && tab === "steps") setMoment((now) => Math.min(now + 1, history.moments.length - 1));
      else if (event.key === "[" && tab === "steps") setMoment((now) => Math.max(now - 1, 0));
      else return;
      event.preventDefault();
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, [tabs, tab, history, show]);
  const onTabKey = (event: KeyboardEvent): void => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step === 0) return;
    const next = tabs[(tabs.indexOf(tab) + step + tabs.length) % tabs.length]!;
    show(next);
    document.getElementById(`tab-${next}`)?.focus();
    event.preventDefault();
  };
  const view = { data, history, selection, onSelect: setSelection, focus, onFocus: setFocus, search };
  return (
    <>
      <header>
        <div class="name"><b>regraft</b><span class="model" title={data.title}>{data.title}</span><span class="quiet">{data.subtitle}</span></div>
        <div role="tablist" aria-label="Views" onKeyDown={onTabKey}>
          {tabs.map((one, index) => (
            <button key={one} type="button" role="tab" id={`tab-${one}`} aria-selected={one === tab} aria-controls="view" tabIndex={one === tab ? 0 : -1}
              title={`${NAMES[one]} (${index + 1})`} onClick={() => show(one)}>{NAMES[one]}</button>
          ))}
        </div>
        <div class="actions">
          <button type="button" aria-label={`Theme: ${theme}`} title={`Theme: ${theme}`} onClick={() => setTheme(theme === "auto" ? "dark" : theme === "dark" ? "light" : "auto")}>
            {theme === "auto" ? "◐" : theme === "dark" ? "●" : "○"}
          </button>
          <button type="button" aria-label="Keys" title="Keys ( ? )" onClick={() => setHelp(true)}>?</button>
        </div>
      </header>
      <main>
        <div id="view" role="tabpanel" aria-labelledby={`tab-${tab}`}>
        {tab === "summary" && <Summary data={data} history={history} onOp={(op) => {
          const found = [...history.after.values(), ...history.before.values()].find((record) => record.op === op);
          if (found) goTo(found.node);
        }} onPass={(pass) => {
          const place = history.moments.findIndex((one) => one.pass === pass);
          if (place >= 0) { setMoment(place); show("steps"); }
        }} />}
        {tab === "graph" && <GraphView {...view} />}
        {tab === "compare" && <CompareView {...view} />}
        {tab === "steps" && <StepsView {...view} moment={moment} onMoment={setMoment} />}
        {tab === "why" && <WhyNotView data={data} history={history} />}
        {tab === "time" && <TimeView data={data} history={history} onNode={goTo} />}
        {tab === "sharding" && data.sharding && <ShardingView sharding={data.sharding} onNode={goTo} />}
        </div>
      </main>
      {help && <Help onClose={() => setHelp(false)} />}
    </>
  );
}

function tabsOf(data: Data, history: History): Tab[] {
  const tabs: Tab[] = ["summary", "graph"];
  if (history.hasChanges) tabs.push("compare");
  if (history.moments.length > 1) tabs.push("steps");
  if (data.findings.length > 0) tabs.push("why");
  if (data.profiles.length > 0) tabs.push("time");
  if (data.sharding !== null) tabs.push("sharding");
  return tabs;
}

function startTab(tabs: Tab[], first: string | undefined): Tab {
  const wanted = window.location.hash.slice(1) || first;
  return tabs.find((tab) => tab === wanted) ?? tabs[0]!;
}

const KEYS: [string, string][] = [
  ["1 … 7", "the views, in order"], ["/", "search"], ["arrow keys", "in a graph: along the edges; in the list: up and down"],
  ["Enter", "open or close a module"], ["C", "close the module around"], ["F", "show the whole graph"], ["+ −", "zoom"],
  ["[ ]", "step back, step on"], ["Esc", "choose nothing"], ["?", "this list"],
];

function Help(props: { onClose: () => void }): VNode {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} onClose={props.onClose} aria-label="Keys" onClick={(event) => event.target === dialog.current && dialog.current?.close()}>
      <h2>Keys</h2>
      <dl>{KEYS.map(([key, text]) => <><dt><kbd>{key}</kbd></dt><dd>{text}</dd></>)}</dl>
      <form method="dialog"><button type="submit">Close</button></form>
    </dialog>
  );
}
