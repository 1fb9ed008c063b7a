// Opens sample pages in headless Chromium, in light and dark, on a desktop and on a phone, with and without scripts.
// Fails on a serious finding of axe-core, on a violation of the policy of a page, and on a page wider than the phone.
//
//   node check.mjs DIR [SHOTS]   DIR: what the tests wrote with PAGES_DIR; SHOTS: directory for screenshots
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { createRequire } from "node:module";
import puppeteer from "puppeteer-core";

const [dir, shots] = process.argv.slice(2);
const axe = fs.readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const profile = fs.mkdtempSync(path.join(os.tmpdir(), "zagent-pages-"));
const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  userDataDir: profile,
  args: ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
const pages = ["node.html", "node-summary.html", "fleet-1/index.html", "fleet-500/index.html", "fleet-10000/index.html",
  "fleet-10000/nodes.html", "fleet-500/failures.html", "fleet-500/rollouts.html", "fleet-500/rollout/r1.html",
  "fleet-500/node/web-00007.html", "fleet-hostile/index.html", "fleet-hostile/nodes.html",
  "fleet-hostile/failures.html", "fleet-hostile/rollouts.html", "fleet-hostile/node/web-00000.html"];
const sizes = { desktop: { width: 1280, height: 900 }, phone: { width: 390, height: 844, isMobile: true, hasTouch: true } };
let wrong = 0;
const fail = (words) => { wrong += 1; console.error(words); };

for (const name of pages) {
  for (const [size, viewport] of Object.entries(sizes)) {
    for (const scheme of ["light", "dark"]) {
      const page = await browser.newPage();
      page.on("console", (said) => said.type() === "error" && fail(`${name}: ${said.text()}`));
      page.on("dialog", (said) => { fail(`${name}: a script of a name runs: ${said.message()}`); said.dismiss(); });
      page.on("request", (asked) => asked.url().startsWith("file:") || fail(`${name}: asks for ${asked.url()}`));
      await page.setViewport(viewport);
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      const began = Date.now();
      await page.goto(`file://${path.resolve(dir, name)}`);
      const took = Date.now() - began;
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
      if (wide > 0) fail(`${name}, ${size}: ${wide} pixels too wide`);
      // The policy of the page forbids scripts from elsewhere: axe enters through the debugger.
      await page.evaluate(axe);
      const found = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"], preload: false }));
      for (const one of found.violations.filter((v) => ["serious", "critical"].includes(v.impact))) {
        fail(`${name}, ${size}, ${scheme}: ${one.id}: ${one.help}: ${one.nodes[0].html}`);
      }
      console.log(`${name}, ${size}, ${scheme}: ${found.violations.length} findings, ${took} ms`);
      if (shots) {
        const file = `${name.replace(/[/.]/g, "-")}-${size}-${scheme}.png`;
        await page.screenshot({ path: path.join(shots, file) });
      }
      await page.close();
    }
  }
}

// Search and filter with the script, and the same page without it.
const page = await browser.newPage();
await page.goto(`file://${path.resolve(dir, "fleet-10000/nodes.html")}`);
await page.type("#search input", "web-00042");
await page.waitForSelector("#found li");
const rows = await page.$$eval("#found li", (all) => all.map((one) => one.textContent));
if (rows.length !== 1 || !rows[0].startsWith("web-00042")) fail(`search found ${JSON.stringify(rows)}`);
await page.setJavaScriptEnabled(false);
await page.reload();
if (await page.$eval("#search", (form) => getComputedStyle(form).display) !== "none") fail("a search that cannot work is shown");
if ((await page.$$("tbody tr")).length !== 250) fail("the list needs a script");
await browser.close();
fs.rmSync(profile, { recursive: true, force: true });
process.exit(wrong === 0 ? 0 : 1);
