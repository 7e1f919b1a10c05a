import type { PageSpec } from "../spec.ts";

export const pages: readonly PageSpec[] = [
  {
    path: "/agents",
    title: "Agents",
    load: () => import("./list.tsx"),
    nav: { group: "Serve", icon: "agents" },
    area: "training",
    jump: "n",
  },
  { path: "/agents/new", title: "New agent", load: () => import("./edit.tsx"), area: "training" },
  { path: "/agents/:name", title: "Agent", load: () => import("./agent.tsx"), area: "training" },
  { path: "/agents/:name/edit", title: "New version", load: () => import("./edit.tsx"), area: "training" },
];
