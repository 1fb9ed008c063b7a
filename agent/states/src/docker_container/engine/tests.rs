//! What is compared, and what the program is told.

use super::differences::PublishedPort;
use super::*;
use crate::named_args::with_map_args;

/// Cut from what `docker container inspect` shows.
const WEB: &str = r#"{"Config": {"Env": ["A=1", "PATH=/bin"], "Labels": {"x": "y"}, "Cmd": ["nginx", "-g", "daemon off;"], "User": "",
    "Tty": false}, "HostConfig": {"Binds": ["/srv:/srv:ro,rprivate,rbind", "data:/data:rw"], "PortBindings": {"80/tcp": [{"HostIp": "",
    "HostPort": "8080"}], "53/udp": [{"HostIp": "127.0.0.1", "HostPort": "53"}]}, "RestartPolicy": {"Name": "on-failure",
    "MaximumRetryCount": 5}, "Memory": 536870912, "CapAdd": ["CAP_NET_ADMIN"]}, "NetworkSettings": {"Networks": {"front": {}}}}"#;

fn map(json: &str) -> Map {
    Value::from_json_str(json).unwrap().as_map().cloned().unwrap()
}

fn differing(json: &str) -> Vec<String> {
    let now = Value::from_json_str(WEB).unwrap();
    // What the container of these tests has anyway is declared where the test says nothing about it.
    let own = r#"{"environment": {"A": 1}, "labels": ["x=y"], "binds": ["/srv:/srv:ro", "data:/data"],
        "port_bindings": ["8080:80", "127.0.0.1:53:53/udp"]}"#;
    let (mut all, asked) = (map(own), map(json));
    if asked.contains("publish") {
        all.remove("port_bindings");
    }
    for (key, value) in asked.iter() {
        all.insert(key.clone(), value.clone());
    }
    let all = with_map_args(&all, |g| differences(g, &now, Some(&image()))).unwrap();
    all.keys().map(Value::json_key).collect()
}

/// Cut from what `docker image inspect` shows.
fn image() -> Value {
    Value::from_json_str(
        r#"{"Config": {"Env": ["PATH=/usr/bin", "LANG=C"], "Labels": {"maintainer": "me"}}}"#,
    )
    .unwrap()
}

#[test]
fn what_is_no_longer_declared_differs() {
    let now = r#"{"Config": {"Env": ["A=1", "PATH=/bin", "LANG=C"], "Labels": {"x": "y", "maintainer": "me",
        "com.docker.compose.project": "p"}}, "HostConfig": {"Binds": ["/srv:/srv"], "PortBindings": {"80/tcp": [{"HostIp": "", "HostPort":
        "8080"}, {"HostIp": "", "HostPort": "8081"}]}}}"#;
    let now = Value::from_json_str(now).unwrap();
    let differing = |json: &str, image: Option<&Value>| {
        let all = with_map_args(&map(json), |g| differences(g, &now, image)).unwrap();
        serde_json::to_string(&Value::from(all)).unwrap()
    };
    let all = r#"{"environment": {"A": 1}, "labels": {"x": "y"}, "binds": "/srv:/srv", "publish": ["8080:80", "8081:80"]}"#;
    assert_eq!(differing(all, Some(&image())), "{}");
    assert_eq!(
        differing("{}", Some(&image())),
        r#"{"Config.Env":{"old":["A"],"new":[]},"Config.Labels":{"old":["x=y"],"new":[]},"HostConfig.Binds":{"old":["/srv:/srv"],"new":[]},"HostConfig.PortBindings":{"old":["8080:80/tcp","8081:80/tcp"],"new":[]}}"#
    );
    let less =
        r#"{"environment": {"A": 1}, "labels": {"x": "y"}, "binds": "/srv:/srv", "publish": ["8080:80"]}"#;
    assert_eq!(
        differing(less, Some(&image())),
        r#"{"HostConfig.PortBindings":{"old":["8081:80/tcp"],"new":[]}}"#
    );
    // What an image brings that nobody can look at is not known.
    assert!(!differing(r#"{"binds": "/srv:/srv"}"#, None).contains("\"Config."));
}

#[test]
fn ranges_and_addresses_of_ports() {
    let read = |text: &str| PublishedPort::parse(text).iter().map(PublishedPort::text).collect::<Vec<_>>();
    assert_eq!(read("8000-8002:80-82/udp"), ["8000:80/udp", "8001:81/udp", "8002:82/udp"]);
    assert_eq!(read("[::1]:53:53"), ["::1:53:53/tcp"]);
    assert_eq!(read("80"), ["80/tcp"]);
    let bound = PublishedPort { ip: "0.0.0.0".into(), port: "32768".into(), container_port: "80/tcp".into() };
    assert!(
        PublishedPort::parse("80")[0].matches(&bound) && !PublishedPort::parse("81:80")[0].matches(&bound)
    );
}

#[test]
fn a_container_has_an_address_in_a_network() {
    let args = map(
        r#"{"networks": [{"front": [{"ipv4_address": "10.0.0.5"}, {"aliases": ["web", "www"]}]}, "back"]}"#,
    );
    let all = with_map_args(&args, container_networks).unwrap();
    assert_eq!(all[0].option_words("--alias"), ["--ip=10.0.0.5", "--alias=web", "--alias=www"]);
    let words = with_map_args(&args, |g| create_args(g, "web", "nginx:1")).unwrap();
    assert_eq!(
        words[1..5],
        ["--network=front", "--ip=10.0.0.5", "--network-alias=web", "--network-alias=www"]
    );
    assert!(all[1].option_words("--alias").is_empty());
    let shown = |json: &str| all[0].is_as_declared(Some(&Value::from_json_str(json).unwrap()));
    assert!(shown(r#"{"IPAMConfig": {"IPv4Address": "10.0.0.5"}, "Aliases": ["web", "www", "0a1b"]}"#));
    assert!(!shown(r#"{"IPAMConfig": {"IPv4Address": "10.0.0.6"}, "Aliases": ["web", "www"]}"#));
    assert!(!shown(r#"{"IPAddress": "10.0.0.5", "Aliases": ["web"]}"#));
    let wrong = map(r#"{"networks": [{"front": {"ip": "10.0.0.5"}}]}"#);
    assert!(with_map_args(&wrong, container_networks).is_err_and(|e| e.message().contains("ipv4_address")));
}

#[test]
fn every_parameter_of_a_formula_has_an_option() {
    let args = map(
        r#"{"blkio_weight": 300, "domainname": "d", "mem_swappiness": 1, "network_disabled": true, "oom_kill_disable": true,
        "oom_score_adj": -5, "pids_limit": 9, "publish_all_ports": true, "userns_mode": "host", "volume_driver": "local",
        "binds": "/a:/b", "volumes": ["/c"], "networks": ["n"]}"#,
    );
    let words = with_map_args(&args, |g| create_args(g, "web", "nginx:1")).unwrap();
    for want in [
        "--blkio-weight=300",
        "--domainname=d",
        "--memory-swappiness=1",
        "--network=none",
        "--oom-kill-disable=true",
        "--oom-score-adj=-5",
        "--pids-limit=9",
        "--publish-all=true",
        "--userns=host",
        "--volume-driver=local",
        "--volume=/a:/b",
        "--volume=/c",
    ] {
        assert!(words.iter().any(|w| w == want), "{want}: {words:?}");
    }
    assert!(!words.iter().any(|w| w == "--network=n"));
}

#[test]
fn what_is_as_declared() {
    let same = r#"{"environment": [{"A": 1}], "labels": ["x=y"], "command": "nginx -g 'daemon off;'", "binds": "/srv:/srv:ro,data:/data",
        "port_bindings": ["8080:80", "127.0.0.1:53:53/udp"], "restart_policy": "on-failure:5", "mem_limit": "512M",
        "cap_add": ["NET_ADMIN"], "networks": ["front"], "tty": false}"#;
    assert_eq!(differing(same), Vec::<String>::new());
}

#[test]
fn what_differs() {
    let all = [
        (r#"{"environment": {"A": 2}}"#, "Config.Env"),
        (r#"{"labels": {"x": "z"}}"#, "Config.Labels"),
        (r#"{"binds": ["/srv:/srv"]}"#, "HostConfig.Binds"),
        (r#"{"publish": "8081:80"}"#, "HostConfig.PortBindings"),
        (r#"{"restart_policy": "always"}"#, "HostConfig.RestartPolicy"),
        (r#"{"memory": "1g"}"#, "HostConfig.Memory"),
        (r#"{"user": "www"}"#, "Config.User"),
        (r#"{"command": ["nginx"]}"#, "Config.Cmd"),
        (r#"{"networks": [{"back": []}]}"#, "NetworkSettings.Networks"),
    ];
    for (json, place) in all {
        assert_eq!(differing(json), [place], "{json}");
    }
}

#[test]
fn what_a_variable_holds_is_not_shown() {
    let now = Value::from_json_str(WEB).unwrap();
    let args = map(r#"{"environment": {"A": "secret", "B": "secret", "PATH": "/bin"}}"#);
    let all = with_map_args(&args, |g| differences(g, &now, None)).unwrap();
    assert_eq!(serde_json::to_string(&all.get("Config.Env")).unwrap(), r#"{"old":["A"],"new":["A","B"]}"#);
}

#[test]
fn options_of_a_new_container() {
    let args = map(
        r#"{"env": {"A": "b c"}, "publish": ["80:80"], "privileged": true, "networks": ["front"], "command": "run -x 'a b'"}"#,
    );
    assert_eq!(with_map_args(&args, env_variables), ["A=b c"]);
    let words = with_map_args(&args, |g| create_args(g, "web", "nginx:1")).unwrap();
    assert_eq!(
        words,
        [
            "--name=web",
            "--publish=80:80",
            "--privileged=true",
            "--network=front",
            "--",
            "nginx:1",
            "run",
            "-x",
            "a b"
        ]
    );
}
