import type { PageSpec } from "../spec.ts";

export const pages: readonly PageSpec[] = [
  {
    path: "/experiments",
    title: "Experiments",
    load: () => import("./list.tsx"),
    nav: { group: "Data", icon: "experiments" },
    area: "training",
    jump: "x",
  },
  { path: "/experiments/new", title: "New experiment", load: () => import("./new.tsx"), area: "training" },
  { path: "/experiments/:id", title: "Experiment", load: () => import("./experiment.tsx"), area: "training" },
];
