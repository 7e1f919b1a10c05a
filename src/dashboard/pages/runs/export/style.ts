/** The look of an exported run. It follows the reader's light or dark setting. */
export const STYLE = `
:root{color-scheme:light dark;--bg:light-dark(#f7f7f5,#121311);--surface:light-dark(#fff,#1a1c19);--line:light-dark(#e3e3de,#2b2e29);
--text:light-dark(#1b1c1a,#e9eae6);--muted:light-dark(#5f625c,#a4a89d);--warn:light-dark(#9a4a06,#fbbf24);--c1:light-dark(#0f766e,#2dd4bf);
--c2:light-dark(#b45309,#fbbf24);--c3:light-dark(#4f46e5,#a5b4fc);--c4:light-dark(#be185d,#f9a8d4);--c5:light-dark(#64748b,#94a3b8);--c6:light-dark(#0369a1,#7dd3fc)}
*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--text);font:14px/1.45 system-ui,sans-serif}
main{max-width:1120px;margin:0 auto;padding:24px 16px}h1{font-size:22px;margin:0;overflow-wrap:anywhere}h2{font-size:13px;color:var(--muted);margin:0 0 10px}
p{margin:2px 0}header p,footer,dt,figcaption,summary{color:var(--muted)}footer{font-size:12px;margin-top:16px}
section,.stats>div{background:var(--surface);border:1px solid var(--line);border-radius:8px;padding:16px;margin-top:16px;min-width:0}
.half{display:grid;grid-template-columns:repeat(2,minmax(0,1fr));gap:0 16px;align-items:start}
.stats{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:0 16px}
.stats span{font-size:12px;color:var(--muted)}.stats b{display:block;font-size:20px;font-variant-numeric:tabular-nums}
figure{margin:0 0 12px}figcaption{font-size:12px;display:flex;gap:14px;flex-wrap:wrap}figcaption b{color:var(--text)}
figcaption i{display:inline-block;width:10px;height:3px;border-radius:2px;margin-right:6px;vertical-align:middle}
i.c1{background:var(--c1)}i.c2{background:var(--c2)}i.c3{background:var(--c3)}i.c4{background:var(--c4)}i.c5{background:var(--c5)}i.c6{background:var(--c6)}
svg{width:100%;height:auto;display:block}svg text{font:11px system-ui,sans-serif;fill:var(--muted)}.g{stroke:var(--line)}
.l{fill:none;stroke-width:1.8;stroke-linejoin:round}.m{stroke:var(--warn);stroke-dasharray:4 4}svg .w{fill:var(--warn)}.w{color:var(--warn)}
dl{margin:0;display:grid;gap:6px;font-size:13px}dl div{display:flex;justify-content:space-between;gap:12px}dd{margin:0;text-align:right;overflow-wrap:anywhere;min-width:0}
pre{margin:0;font:12.5px/1.5 ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere}.alarms{font-size:13px;padding-left:18px}
details{border-top:1px solid var(--line);padding:8px 0}summary{cursor:pointer}table{width:100%;border-collapse:collapse;font-size:13px;table-layout:fixed}
th,td{text-align:left;vertical-align:top;padding:6px 8px;border-bottom:1px solid var(--line);overflow-wrap:anywhere}th{font-weight:500;color:var(--muted)}
.n{font-variant-numeric:tabular-nums}@media(max-width:720px){.half{grid-template-columns:minmax(0,1fr)}}
`.replaceAll("\n", "");
