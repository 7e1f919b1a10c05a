import type { PageSpec } from "../spec.ts";

export const pages: readonly PageSpec[] = [
  {
    path: "/datasets",
    title: "Datasets",
    load: () => import("./list.tsx"),
    nav: { group: "Data", icon: "datasets" },
    area: "training",
    jump: "d",
  },
  { path: "/datasets/:id", title: "Dataset", load: () => import("./dataset.tsx"), area: "training" },
];
