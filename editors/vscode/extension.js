// Starts vyre-lsp, where it is installed, and connects VS Code to it.  Without it there are colours alone.
"use strict";

const fs = require("fs");
const path = require("path");
const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

/** The server of the settings; else that of a virtual environment in the workspace, or the one on the PATH. */
function serverPath() {
  const wanted = vscode.workspace.getConfiguration("vyre").get("server.path");
  if (wanted) {
    return wanted;
  }
  const isWindows = process.platform === "win32";
  const name = isWindows ? "vyre-lsp.exe" : "vyre-lsp";
  const folders = (vscode.workspace.workspaceFolders || []).map((folder) => folder.uri.fsPath);
  const places = [
    ...folders.map((folder) => path.join(folder, ".venv", isWindows ? "Scripts" : "bin")),
    ...(process.env.PATH || "").split(path.delimiter),
  ];
  return places.map((place) => path.join(place, name)).find((file) => fs.existsSync(file));
}

async function activate(context) {
  const command = serverPath();
  if (!command) {
    return;
  }
  client = new LanguageClient("vyre", "vyre", { command }, { documentSelector: [{ language: "vyre" }] });
  context.subscriptions.push(
    vscode.commands.registerCommand("vyre.restartServer", () => client.restart()),
  );
  try {
    await client.start();
  } catch (error) {
    vscode.window.showErrorMessage(`${command} does not start: ${error.message}`);
  }
}

function deactivate() {
  return client && client.stop();
}

module.exports = { activate, deactivate };
