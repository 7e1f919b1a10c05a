import type { PageSpec } from "../spec.ts";

export const pages: readonly PageSpec[] = [
  {
    path: "/regions",
    title: "Regions",
    load: () => import("./regions.tsx"),
    nav: { group: "Manage", icon: "regions" },
    area: "training",
  },
];
