module github.com/hookline/hookline-go

go 1.22
