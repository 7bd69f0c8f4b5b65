module github.com/gopcp/pmcd

go 1.26
