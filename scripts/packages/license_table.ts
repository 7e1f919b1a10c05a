/**
 * Licences that no package states in a form that a build can read. A component without a text gets the texts of its SPDX
 * identifiers from `license_texts/`, with the note of this table. A build fails for a component that is in neither place.
 */

export type WithoutText = {
  /** Why the text is not in the package, and where the authors keep it. */
  note: string;
  /** Files of the package that state terms, though their names do not say so. */
  files?: readonly string[];
};

const NO_FILE = "The package has no license file; this is the license that its package.json names.";
const libvips: WithoutText = {
  note: "The package has no license file; its README lists the terms of every library inside.",
  files: ["README.md"],
};
const gccRuntime: WithoutText = {
  note: "A library of GCC, copyright Free Software Foundation, Inc. It comes from the machine that builds.",
};

export const WITHOUT_TEXT: Readonly<Record<string, WithoutText>> = {
  "@aws-sdk/credential-provider-http": { note: NO_FILE },
  "@aws-sdk/credential-provider-login": { note: NO_FILE },
  "@aws-sdk/nested-clients": { note: NO_FILE },
  "@img/sharp-libvips-linux-arm64": libvips,
  "@img/sharp-libvips-linux-x64": libvips,
  "@wasm-audio-decoders/common": { note: `${NO_FILE} Copyright Ethan Halsall.` },
  bun: {
    note: "Copyright Oven. The package has no license file; LICENSE.md of github.com/oven-sh/bun lists what it links.",
  },
  cpython: {
    note: "Copyright Python Software Foundation. Compiled to WebAssembly by Pyodide, whose package has no license file.",
  },
  "drizzle-orm": { note: NO_FILE },
  glibc: {
    note: "Copyright Free Software Foundation, Inc. Linked into verk-jail and verk-confine, whose sources Verk has.",
  },
  "libgcc_s.so.1": gccRuntime,
  "libstdc++.so.6": gccRuntime,
  "llama.cpp": {
    note: "Copyright The ggml authors. Its libraries, ggml among them, come in the package @node-llama-cpp.",
  },
  "mpg123-decoder": { note: `${NO_FILE} Copyright Ethan Halsall.` },
  "onnxruntime-common": { note: `${NO_FILE} Copyright Microsoft Corporation.` },
  "onnxruntime-node": {
    note: `${NO_FILE} Copyright Microsoft Corporation. ThirdPartyNotices.txt of github.com/microsoft/onnxruntime lists all notices.`,
  },
  pyodide: { note: `${NO_FILE} Copyright Pyodide contributors and Mozilla.` },
};

const libvipsParts: Readonly<Record<string, string>> = {
  aom: "BSD-2-Clause",
  archive: "BSD-2-Clause",
  cairo: "MPL-1.1",
  cgif: "MIT",
  exif: "LGPL-3.0-or-later",
  expat: "MIT",
  ffi: "MIT",
  fontconfig: "HPND-sell-variant",
  freetype: "FTL",
  fribidi: "LGPL-3.0-or-later",
  glib: "LGPL-3.0-or-later",
  harfbuzz: "MIT",
  heif: "LGPL-3.0-or-later",
  highway: "BSD-3-Clause",
  imagequant: "BSD-2-Clause",
  lcms: "MIT",
  mozjpeg: "BSD-3-Clause AND IJG AND Zlib",
  pango: "LGPL-3.0-or-later",
  pixman: "MIT",
  png: "libpng-2.0",
  "proxy-libintl": "LGPL-3.0-or-later",
  rsvg: "LGPL-3.0-or-later",
  tiff: "libtiff",
  uhdr: "MIT",
  vips: "LGPL-3.0-or-later",
  webp: "BSD-3-Clause",
  xml2: "MIT",
  "zlib-ng": "Zlib",
};

/** Libraries inside a component, by its name. */
export const PARTS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "@img/sharp-libvips-linux-arm64": libvipsParts,
  "@img/sharp-libvips-linux-x64": libvipsParts,
  bun: {
    JavaScriptCore: "LGPL-2.0-or-later",
    SQLite: "blessing",
    base64: "BSD-2-Clause",
    boringssl: "Apache-2.0 AND ISC",
    brotli: "MIT",
    "c-ares": "MIT",
    highway: "Apache-2.0",
    icu: "Unicode-3.0",
    libarchive: "BSD-2-Clause",
    libdeflate: "MIT",
    "libjpeg-turbo": "BSD-3-Clause AND IJG AND Zlib",
    libspng: "BSD-2-Clause",
    libwebp: "BSD-3-Clause",
    "lol-html": "BSD-3-Clause",
    "ls-hpack": "MIT",
    "ls-qpack": "MIT",
    lsquic: "MIT AND BSD-3-Clause",
    mimalloc: "MIT",
    picohttpparser: "MIT",
    simdutf: "Apache-2.0",
    tinycc: "LGPL-2.1-or-later",
    uSockets: "Apache-2.0",
    uWebSockets: "Apache-2.0",
    uucode: "MIT",
    "zlib-ng": "Zlib",
    zstd: "BSD-3-Clause",
  },
  "mpg123-decoder": { mpg123: "LGPL-2.1-or-later" },
  "onnxruntime-node": {
    KleidiAI: "Apache-2.0",
    SafeInt: "MIT",
    "abseil-cpp": "Apache-2.0",
    cpuinfo: "BSD-2-Clause",
    eigen: "MPL-2.0",
    flatbuffers: "Apache-2.0",
    "nlohmann-json": "MIT",
    onnx: "Apache-2.0",
    protobuf: "BSD-3-Clause",
    re2: "BSD-3-Clause",
  },
  pyodide: {
    SQLite: "blessing",
    bzip2: "bzip2-1.0.6",
    emscripten: "MIT",
    expat: "MIT",
    libffi: "MIT",
    mpdecimal: "BSD-2-Clause",
    musl: "MIT",
    xz: "0BSD",
    zlib: "Zlib",
    zstd: "BSD-3-Clause",
  },
};
