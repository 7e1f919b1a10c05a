import type { PageSpec } from "../spec.ts";

export const pages: readonly PageSpec[] = [
  {
    path: "/annotate",
    title: "Annotate",
    load: () => import("./list.tsx"),
    nav: { group: "Data", icon: "annotate" },
    area: "training",
    jump: "a",
  },
  { path: "/annotate/:id", title: "Annotation queue", load: () => import("./queue.tsx"), area: "training" },
  { path: "/annotate/:id/work", title: "Annotate", load: () => import("./work.tsx"), area: "training" },
];
