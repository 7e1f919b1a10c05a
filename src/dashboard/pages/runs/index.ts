import type { PageSpec } from "../spec.ts";

export const pages: readonly PageSpec[] = [
  {
    path: "/runs",
    title: "Runs",
    load: () => import("./list.tsx"),
    nav: { group: "Work", icon: "runs" },
    area: "training",
    jump: "r",
  },
  { path: "/runs/new", title: "New run", load: () => import("./new/page.tsx"), area: "training" },
  { path: "/runs/compare", title: "Compare runs", load: () => import("./compare/page.tsx"), area: "training" },
  { path: "/runs/:id", title: "Run", load: () => import("./run/page.tsx"), area: "training" },
];
