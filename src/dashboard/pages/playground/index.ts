import type { PageSpec } from "../spec.ts";

export const pages: readonly PageSpec[] = [
  {
    path: "/playground",
    title: "Playground",
    load: () => import("./playground.tsx"),
    nav: { group: "Work", icon: "playground" },
    area: "inference",
    jump: "p",
  },
];
