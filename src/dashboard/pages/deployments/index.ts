import type { PageSpec } from "../spec.ts";

export const pages: readonly PageSpec[] = [
  {
    path: "/deployments",
    title: "Deployments",
    load: () => import("./list.tsx"),
    nav: { group: "Serve", icon: "deployments" },
    area: "inference",
    jump: "v",
  },
  { path: "/deployments/new", title: "New deployment", load: () => import("./new.tsx"), area: "inference" },
  { path: "/deployments/:id", title: "Deployment", load: () => import("./deployment.tsx"), area: "inference" },
];
