import type { PageSpec } from "../spec.ts";

export const pages: readonly PageSpec[] = [
  {
    path: "/monitors",
    title: "Monitors",
    load: () => import("./list.tsx"),
    nav: { group: "Serve", icon: "monitors" },
    area: "training",
    jump: "m",
  },
  { path: "/monitors/new", title: "New monitor", load: () => import("./new.tsx"), area: "training" },
  { path: "/monitors/:id", title: "Monitor", load: () => import("./monitor.tsx"), area: "training" },
];
