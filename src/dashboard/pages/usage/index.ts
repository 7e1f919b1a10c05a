import type { PageSpec } from "../spec.ts";

export const pages: readonly PageSpec[] = [
  {
    path: "/usage",
    title: "Usage",
    load: () => import("./usage.tsx"),
    nav: { group: "Manage", icon: "usage" },
    area: "training",
    jump: "u",
  },
];
